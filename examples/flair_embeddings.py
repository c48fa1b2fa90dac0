"""ELMo as token embeddings of flair, for its taggers and classifiers (flair 0.15).

from flair_embeddings import ElmoTokenEmbeddings
tagger = SequenceTagger(embeddings=ElmoTokenEmbeddings("original"), ...)
"""

from typing import Any

import flair
import torch
from flair.data import Sentence
from flair.embeddings import TokenEmbeddings
from flair.embeddings.base import register_embeddings

from elmo_cli import ElmoEmbedder


@register_embeddings
class ElmoTokenEmbeddings(TokenEmbeddings):  # type: ignore[misc] # where flair is missing
    """Vectors of the tokens of a sentence, which are not trained.

    flair saves the name of the ELMo model and the layers, not the weights. Import this
    class before you load a saved model.
    """

    def __init__(self, model: str | None = None, layers: str = "average") -> None:
        """Load a model by its name or folder. Several layers are concatenated."""
        super().__init__()
        self.parameters_of_init = {"model": model, "layers": layers}
        self.name = f"elmo-{model or 'default'}-{layers}"
        # The vectors are the same in every epoch, so flair may keep them.
        self.static_embeddings = True
        self.embedder = ElmoEmbedder(model=model)
        self.layers = layers
        # (0, W), or (L, 0, W) for several layers
        [empty] = self.embedder.embed_sentences([[]], layers=layers)
        n_layers = len(empty) if empty.ndim == 3 else 1
        self._length: int = n_layers * empty.shape[-1]
        # Nothing is trained, and flair expects this of embeddings that are loaded.
        self.eval()

    @property
    def embedding_length(self) -> int:
        """Width of a token's vector."""
        return self._length

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        tokens = ([token.text for token in sentence] for sentence in sentences)
        embedded = self.embedder.embed_sentences(tokens, layers=self.layers)
        for sentence, values in zip(sentences, embedded, strict=True):
            vectors = torch.from_numpy(values).to(flair.device)
            for index, token in enumerate(sentence):
                token.set_embedding(self.name, vectors[..., index, :].flatten())

    def to_params(self) -> dict[str, Any]:
        """Return the arguments that flair saves."""
        return self.parameters_of_init

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> "ElmoTokenEmbeddings":
        """Restore the embeddings of a saved model of flair."""
        return cls(**params)
