"""ELMo as the first module of a SentenceTransformer (sentence-transformers 6).

from elmo_sentence_transformer import ElmoModule
model = SentenceTransformer(modules=[ElmoModule("original")])
model.encode(["She opened an account."])
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from sentence_transformers.base.modules.input_module import InputModule

from elmo_cli import ElmoEmbedder


class ElmoModule(InputModule):  # type: ignore[misc] # where the library is missing
    """Module from texts to the mean of their tokens' vectors, which are not trained.

    `model.save` stores the name of the ELMo model, not its weights.
    sentence-transformers loads classes of other packages only with
    `SentenceTransformer(folder, trust_remote_code=True)`.
    """

    config_keys = ["model", "layers", "pooling"]  # noqa: RUF012 (The library defines it so.)
    save_in_root = False

    def __init__(
        self,
        model: str | None = None,
        layers: str = "average",
        pooling: Literal["mean", "max", "first", "last"] = "mean",
    ) -> None:
        """Load a model by its name or folder. Several layers are concatenated."""
        super().__init__()
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.embedder = ElmoEmbedder(model=model)

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Split texts into tokens, as `encode` does."""
        texts = [(prompt or "") + text for text in inputs]
        return {"tokens": self.embedder.tokenize(texts)}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return one vector per text, float32, shape (B, W)."""
        vectors = self.embedder.embed_sentences(
            features["tokens"], layers=self.layers, pooling=self.pooling
        )
        stacked = np.stack([vector.ravel() for vector in vectors])
        return {**features, "sentence_embedding": torch.from_numpy(stacked)}

    def get_embedding_dimension(self) -> int:
        """Return the width of a text's vector."""
        [zeros] = self.embedder.embed_sentences(
            [[]], layers=self.layers, pooling=self.pooling
        )
        return zeros.size

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Save the options."""
        self.save_config(output_path)
