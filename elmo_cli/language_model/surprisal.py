"""Surprisal of the tokens, words or regions of sentences, in bits, and their table.

The surprisal of a token is -log2 of its probability in its context. A token that is not in the
vocabulary has the surprisal of `<UNK>`, which covers all unknown words. A row of the table is a
unit of a sentence. Its surprisal is the sum over its tokens:

token      one token
word       separated by white space in the text: `didn` and `'t` are the word `didn't`
region     separated by `|` in the text: `The horse | raced past the barn | fell.`

Next to the surprisal stands what else predicts the reading time of a word: its length and its log
frequency, from `frequencies`. Minus this is the surprisal of the word without a context.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors.checks import (
    Sentence,
    Text,
    check_type,
)
from elmo_cli.inference.fast_bilm import BACKWARD, BOTH, FORWARD
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction

SLOTS: Final[dict[str, Sequence[int]]] = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "both": BOTH,
}
"""Directions of `LanguageModel.score_batch` by their name."""


class Surprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (T,); in D directions, (D, T), or with the boundary, (D, T + 1)."""
    entropy: NDArray[np.float64] | None
    """Expected surprisal at each position, shape (T,) or (D, T); None unless it was requested."""


def measure_surprisal(
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    backward: bool = False,
    with_entropy: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token of a stream of sentences.

    Args:
        model: Language model.
        sentences, batch_size: As in `LanguageModel.score`.
        backward: Predict each token from the tokens after it instead of those before it.
        with_entropy: Compute the entropy of each prediction too.

    Yields:
        The surprisals of one sentence, in the order of the sentences.
    """
    direction: Direction = "backward" if backward else "forward"
    measured = measure_directions(
        model, sentences, batch_size, direction=direction, with_entropy=with_entropy
    )
    for tokens, known, surprisal, entropy in measured:
        yield Surprisals(
            tokens, known, surprisal[0], None if entropy is None else entropy[0]
        )


def measure_directions(
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] | None = None,
    *,
    direction: Direction = "both",
    with_entropy: bool = False,
    with_boundary: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token in one direction, or in both; see `measure_surprisal`.

    `with_boundary` includes the surprisal of `</S>` after the tokens, or, backward, of `<S>`.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    slots = SLOTS[direction]

    def compute(batch: list[Sentence], top: Tensor) -> list[Surprisals]:
        batch_scores = model.score_batch(batch, top, slots, with_entropy=with_entropy)
        return [
            _in_bits(tokens, known, list(map(of_tokens, slots, scores)))
            for tokens, (known, scores) in zip(batch, batch_scores, strict=True)
        ]

    def of_tokens(slot: int, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        # The boundary is the last prediction of the forward direction, the first of the other.
        return scores if with_boundary else scores[:, slot : scores.shape[1] - 1 + slot]

    empty = _in_bits(
        [], np.empty(0, bool), [np.empty((1 + with_entropy, 0)) for _ in slots]
    )
    return model.compute_batches(
        sentences,
        compute,
        empty,
        directions=slots,
        batch_size=batch_size,
        is_ready=is_ready,
    )


def _in_bits(
    tokens: Sentence, known: NDArray[np.bool_], scores: Sequence[NDArray[np.float64]]
) -> Surprisals:
    """Convert log probabilities, shape (1, T), or with entropies, (2, T), to bits."""
    bits = np.stack(scores) / np.log(2)  # (D, 1 or 2, T)
    return Surprisals(
        tokens, known, -bits[:, 0], bits[:, 1] if bits.shape[1] > 1 else None
    )


def directed(name: str, direction: Direction) -> list[str]:
    """Return the names of a column of each direction."""
    return [f"{name}_forward", f"{name}_backward"] if direction == "both" else [name]
