"""Step of a scikit-learn pipeline that turns texts into one ELMo vector each."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_cli.arrays import FloatArray
from elmo_cli.errors.checks import check_batch
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.options.selection import Pooling

try:
    from sklearn.base import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
except ModuleNotFoundError:
    raise ImportError(
        "ElmoVectorizer needs scikit-learn. Install it with "
        + install_command("sklearn")
    ) from None

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder


class ElmoVectorizer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc] # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Transformer of texts into the rows of a matrix.

    Nothing is fitted: `fit` only checks the parameters, and `transform` works without
    it. The model is loaded on first use, and pickles and clones do not contain it.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        layers: str | None = None,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling = "mean",
        tokenizer: str | None = "auto",
        language: str | None = None,
        batch_tokens: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Store the parameters unchanged.

        Args:
            model: Name of a model listed by `elmo models`, a folder or a zip file. None
                is the default model.
            layers: "all", "top", "average", "sum", numbers such as 2, -1 or [0, 2], or
                "word_emb". Several layers are concatenated. None means "average", or
                all layers with a `mix`.
            mix: In place of `layers`, the scalar parameters of a trained mix of all
                layers, before the softmax.
            gamma: Scale of the mix. None means 1.
            pooling: "mean" or "max" over the tokens of a text, or its "first" or "last"
                token.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" looks at the first 200 texts of
                each call: tokenized ones are split at white space, and others are
                tokenized like the model's training text, else by "moses".
            language: Code of the language of the texts. None means the model's.
            batch_tokens: Maximum number of tokens per batch.
            device: "cpu", "cuda", "cuda:N", "mps" or "auto".
        """
        self.model = model
        self.layers = layers
        self.mix = mix
        self.gamma = gamma
        self.pooling = pooling
        self.tokenizer = tokenizer
        self.language = language
        self.batch_tokens = batch_tokens
        self.device = device

    def fit(
        self, texts: Iterable[str | Sequence[str]], y: object = None
    ) -> "ElmoVectorizer":
        """Check the parameters.

        Raises:
            ElmoError: The model is missing, or a parameter is invalid.
        """
        self._embed([])
        return self

    def transform(self, texts: Iterable[str | Sequence[str]]) -> FloatArray:
        """Embed texts.

        Args:
            texts: n strings, which are tokenized, or lists of tokens.

        Returns:
            float32, shape (n, W), one row per text; zeros for a text without tokens.
            For L layers (n, L * W), with W / 2 in place of W for `word_emb`.

        Raises:
            ElmoError: A text is neither a string nor a list, the model is missing, or a
                parameter is invalid.
        """
        return self._embed(texts)

    def _embed(self, texts: Iterable[str | Sequence[str]]) -> FloatArray:
        """Embed texts.

        After `set_output`, `transform` returns tables, and this method still an array.
        """
        if getattr(check_batch(texts, "texts"), "ndim", 1) != 1:
            raise InputError(
                "texts: expected a list or a column, found a table",
                remedy=(
                    'Choose a column: in a ColumnTransformer, "text" and not ["text"].'
                ),
            )
        if self.pooling is None:
            raise InputError("pooling: expected mean, max, first or last, found None")
        batch: list[Any] = list(texts)
        vectors: Any = self._load().encode(
            batch,
            layers=self.layers,
            mix=self.mix,
            gamma=self.gamma,
            pooling=self.pooling,
            tokenizer=self.tokenizer,
            language=self.language,
        )
        width = int(np.prod(vectors.shape[1:]))
        rows: FloatArray = vectors.reshape(len(batch), width)
        return rows

    @property
    def _n_features_out(self) -> int:  # scikit-learn's mixin reads this name.
        return int(self._embed([]).shape[1])

    def _load(self) -> "ElmoEmbedder":
        """Return the embedder, reloaded if one of its parameters has changed."""
        from elmo_cli.embedder import ElmoEmbedder

        settings: dict[str, Any] = {
            "model": self.model,
            "batch_tokens": self.batch_tokens,
            "device": self.device,
        }
        # A clone or a pickle has no `_loaded`.
        loaded_settings, embedder = getattr(self, "_loaded", (None, None))
        if embedder is None or loaded_settings != settings:
            embedder = ElmoEmbedder(**settings)
            self._loaded = (settings, embedder)
        return embedder

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_loaded"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        # The vectors are float32 for any input.
        tags.transformer_tags.preserves_dtype = []
        return tags
