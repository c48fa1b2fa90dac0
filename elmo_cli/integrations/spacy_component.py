"""Component `elmo` of a spaCy pipeline, which gives tokens their vectors.

spaCy finds it by the entry point `spacy_factories`, so that `nlp.add_pipe("elmo")`
needs no import.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from elmo_cli.arrays import FloatArray
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.inference.similarity import cosine_similarity
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.runs.pipeline import per_item
from elmo_cli.types import Sentence


class ElmoComponent:
    """Component that gives each token of a document its vector in its sentence.

    Pickles and folders of `to_disk` contain the name of the model, not its weights.
    """

    def __init__(self, layers: str, **settings: Any) -> None:
        """Load the model with the arguments of `ElmoEmbedder`.

        Several layers are concatenated.

        Raises:
            ElmoError: See `ElmoEmbedder`; or the model lacks a layer.
        """
        self._layers = layers
        self._settings = settings
        SelectionSettings(layers).check_for_model(self.embedder.architecture.n_layers)

    @cached_property
    def embedder(self) -> ElmoEmbedder:
        """Embedder of the sentences, loaded on first use after unpickling."""
        return ElmoEmbedder(**self._settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "embedder"}

    def __call__(self, doc: Doc) -> Doc:
        """Embed one document."""
        return next(self.pipe([doc]))

    def pipe(
        self, docs: Iterable[Doc], *, batch_size: int | None = None
    ) -> Iterator[Doc]:
        """Embed a stream of documents, in its order, one window of sentences at a time.

        Each document gets `doc.tensor`, float32, shape (T, W), zero for white space,
        and the hooks. spaCy passes `batch_size`, which has no effect: windows are
        counted in tokens.
        """
        embedded = per_item(
            docs,
            _sentences,
            lambda sentences: self.embedder.embed_sentences(
                sentences, layers=self._layers
            ),
        )
        for doc, arrays in embedded:
            vectors = np.concatenate([_side_by_side(array) for array in arrays])
            width = vectors.shape[1]
            doc.tensor = np.zeros((len(doc), width), np.float32)
            doc.tensor[_indices_of_words(doc)] = vectors
            self.add_hooks(doc)
            yield doc

    @staticmethod
    def add_hooks(doc: Doc) -> None:
        """Use `doc.tensor` for the vectors and similarities of a document.

        A document that was read from bytes, or comes from another process
        (`n_process`), still has its tensor but has lost the hooks. Without them, spaCy
        treats tokens of one form as equal.
        """
        similarity = {"similarity": _similarity, "has_vector": _has_vector}
        doc.user_token_hooks.update(vector=_token_vector, **similarity)
        doc.user_span_hooks.update(vector=_mean_vector, **similarity)
        doc.user_hooks.update(vector=_mean_vector, **similarity)


def _sentences(doc: Doc) -> list[Sentence]:
    """Return the tokens of the sentences, without white space."""
    parts = doc.sents if doc.has_annotation("SENT_START") else [doc]
    sentences = [[word.text for word in part if not word.is_space] for part in parts]
    return sentences or [[]]


def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    layers: str,
    state: str | None,
    precision: str,
    device: str,
) -> ElmoComponent:
    """Create the component of a pipeline; spaCy passes the options of its config."""
    return ElmoComponent(
        layers, model=model, state=state, precision=precision, device=device
    )


CONFIG = {
    "model": None,
    "layers": "average",
    "state": None,
    "precision": "float32",
    "device": "cpu",
}
Language.factory(
    "elmo", default_config=CONFIG, assigns=["doc.tensor"], func=make_component
)


def _side_by_side(array: FloatArray) -> FloatArray:
    """Return the layers of each token side by side: (T, W) for (T, W) or (L, T, W)."""
    if array.ndim == 2:
        return array
    joined: FloatArray = np.hstack([*array])
    return joined


def _indices_of_words(part: Doc | Span) -> list[int]:
    """Return the indices in the document of all tokens except white space."""
    return [token.i for token in part if not token.is_space]


def _token_vector(token: Token) -> FloatArray:
    vector: FloatArray = token.doc.tensor[token.i]
    return vector


def _mean_vector(part: Doc | Span) -> FloatArray:
    """Return the mean over the tokens except white space, shape (W,).

    Without tokens, it is zeros.
    """
    rows = part.doc.tensor[_indices_of_words(part)]
    mean: FloatArray = rows.sum(axis=0) / max(1, len(rows))
    return mean


def _similarity(part: Doc | Span | Token, other: Doc | Span | Token) -> float:
    return cosine_similarity(part.vector, other.vector)


def _has_vector(part: Doc | Span | Token) -> bool:
    return bool(part.vector.any())
