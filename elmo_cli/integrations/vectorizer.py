"""Texts to one ELMo vector each, as a step of a scikit-learn pipeline (extra `sklearn`)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.model.options import read_options
from elmo_cli.pretrained.loading import find_model, language_of
from elmo_cli.text.lines import Sentence
from elmo_cli.text.tokenizers import make_tokenizer

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "sklearn":  # something that scikit-learn takes
        raise
    raise ImportError(
        'ElmoVectorizer needs scikit-learn, which is not installed; pip install "elmo-cli[sklearn]"'
    ) from None

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.inference.selection import Selection

DEFAULT_LAYERS: Final = "average"


class ElmoVectorizer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc] # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Turn texts into the rows of a matrix.

    There is nothing to fit: `fit` only checks, and `transform` works without it. The model is
    loaded by the first `transform`, and left out of pickles and clones.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        layers: str = DEFAULT_LAYERS,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: str = "mean",
        tokenizer: str = "moses",
        batch_tokens: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Keep the parameters as they are; `fit` and `transform` check them.

        Args:
            model: a name, folder or zip file; the default model if none is given.
            layers: as in `ElmoEmbedder.embed_sentences`; several are concatenated.
            mix: in place of `layers`, the scalar parameters of a trained mix of all layers,
                before the softmax.
            gamma: the gamma of the mix; 1 if not given.
            pooling: the `mean` or `max` over the tokens of a text, its `first` or `last` token.
            tokenizer: for texts that are strings: `moses`, `spacy` or `whitespace`.
            batch_tokens: maximum number of tokens in a batch.
            device: `cpu`, `cuda`, `cuda:N`, `mps` or `auto`.
        """
        self.model = model
        self.layers = layers
        self.mix = mix
        self.gamma = gamma
        self.pooling = pooling
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self.device = device

    def fit(self, texts: Iterable[str | Sequence[str]], y: object = None) -> "ElmoVectorizer":
        """Check the texts and the parameters.

        Raises:
            ElmoError: see `transform`.
        """
        self._sentences(texts)
        self._output_shape()
        return self

    def transform(self, texts: Iterable[str | Sequence[str]]) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: n strings, which are tokenized, or lists of tokens.

        Returns:
            float32, shape (n, W), a row a text; zeros for a text without tokens. For L layers
            (n, L * W), with W / 2 in place of W for `word_emb`.

        Raises:
            ElmoError: a text is neither, the model is missing, or a parameter is invalid.
        """
        sentences = self._sentences(texts)
        rows = np.empty((len(sentences), self._n_features_out), np.float32)
        vectors = self._load().embed_sentences(
            sentences,
            layers=self._layers,
            mix=self.mix,
            gamma=self.gamma,
            pooling=self.pooling,
        )
        for row, vector in zip(rows, vectors, strict=True):
            row[:] = vector.ravel()
        return rows

    @property
    def _n_features_out(self) -> int:  # the name that scikit-learn's mixin reads
        return int(np.prod(self._output_shape()))

    @property
    def _layers(self) -> str:
        """The layers as `select` takes them: with a mix, the default gives way to it."""
        return "all" if self.mix is not None and self.layers == DEFAULT_LAYERS else self.layers

    def _output_shape(self) -> tuple[int, ...]:
        """The shape of a text's vector, without the model's weights: (W,) or (L, W)."""
        import torch

        from elmo_cli.inference.selection import select

        if self.pooling is None:
            raise InputError("pooling None: expected mean, max, first or last")
        options = read_options(find_model(self.model).options)
        selection: Selection = select(
            options.n_layers, self._layers, self.mix, self.gamma, self.pooling
        )
        nothing = selection.empty(options.n_layers, options.width, torch.device("cpu"))
        return tuple(nothing.shape)

    def _sentences(self, texts: Iterable[str | Sequence[str]]) -> list[Sentence]:
        """The tokens of each text."""
        if isinstance(texts, str):
            raise InputError("expected a list of texts, found one string")
        if getattr(texts, "ndim", 1) != 1:
            raise InputError(f"expected one column of texts, found {texts.ndim} dimensions")  # type: ignore[attr-defined]
        cut = make_tokenizer(self.tokenizer, language_of(self.model)).cut
        return [
            cut(text) if isinstance(text, str) else _checked(number, text)
            for number, text in enumerate(texts)
        ]

    def _load(self) -> "ElmoEmbedder":
        """The embedder, loaded anew when a parameter that it depends on has changed."""
        from elmo_cli.embedder import ElmoEmbedder

        key = (self.model, self.batch_tokens, self.device)
        if getattr(self, "_loaded", (None, None))[0] != key:
            embedder = ElmoEmbedder(
                model=self.model, batch_tokens=self.batch_tokens, device=self.device
            )
            self._loaded = (key, embedder)
        return self._loaded[1]

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
        return tags


def _checked(number: int, text: Any) -> Sentence:
    """The tokens of a text that is not a string."""
    try:
        sentence = list(text)
    except TypeError:
        sentence = [None]
    if not all(isinstance(token, str) for token in sentence):
        raise InputError(f"text {number}: expected a string or a list of tokens, found {text!r}")
    return sentence
