"""Surprisal of each token, and entropy of each prediction, in bits.

The surprisal of a token is -log2 of its probability in its context. A token that is not in the
vocabulary has the surprisal of `<UNK>`, which covers all unknown words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.fast_bilm import BACKWARD, BOTH, FORWARD
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.settings import DEFAULT_BATCH_SIZE
from elmo_cli.text.records import Sentence

Direction = Literal["forward", "backward", "both"]
"""Context of a prediction: the tokens before it, the tokens after it, or each in turn."""
DIRECTIONS: Final = get_args(Direction)
SLOTS: Final[dict[str, Sequence[int]]] = {"forward": FORWARD, "backward": BACKWARD, "both": BOTH}


class Surprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (T,)."""
    entropy: NDArray[np.float64] | None
    """Expected surprisal at each position, shape (T,); None unless it was requested."""


class DirectedSurprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence in D directions, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (D, T); with the boundary, (D, T + 1)."""
    entropy: NDArray[np.float64]
    """Expected surprisal at each position, shape (D, T); (0, T) unless it was requested."""


def measure_surprisal(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] = lambda: True,
    *,
    backward: bool = False,
    with_entropy: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token of a stream of sentences.

    Args:
        sentences, batch_size, is_ready: As in `LanguageModel.score`.
        backward: Predict each token from the tokens after it instead of those before it.
        with_entropy: Compute the entropy of each prediction too.
    """
    direction: Direction = "backward" if backward else "forward"
    measure = partial(measure_directions, model, direction=direction, with_entropy=with_entropy)
    for surprisals in measure(sentences, batch_size=batch_size, is_ready=is_ready):
        entropy = surprisals.entropy[0] if with_entropy else None
        yield Surprisals(surprisals.tokens, surprisals.known, surprisals.surprisal[0], entropy)


def measure_directions(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] = lambda: True,
    *,
    direction: Direction = "both",
    with_entropy: bool = False,
    with_boundary: bool = False,
) -> Iterator[DirectedSurprisals]:
    """Measure the surprisal of each token in one direction, or in both.

    Args:
        sentences, batch_size, is_ready: As in `LanguageModel.score`.
        direction: Directions of the predictions; both have the order forward, backward.
        with_entropy: Compute the entropy of each prediction too.
        with_boundary: Include the surprisal of `</S>` after the tokens, which the forward
            direction predicts, or of `<S>` before them, which the backward direction predicts.
    """
    slots = SLOTS[direction]

    def compute(batch: list[Sentence], top: Tensor) -> list[DirectedSurprisals]:
        batch_scores = model.score_batch(batch, top, slots, with_entropy=with_entropy)
        return [
            _in_bits(tokens, known, list(map(of_tokens, slots, scores)))
            for tokens, (known, scores) in zip(batch, batch_scores, strict=True)
        ]

    def of_tokens(slot: int, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        # The boundary is the last prediction of the forward direction, the first of the other.
        return scores if with_boundary else scores[:, slot : scores.shape[1] - 1 + slot]

    empty = _in_bits([], np.empty(0, bool), [np.empty((1 + with_entropy, 0)) for _ in slots])
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
) -> DirectedSurprisals:
    """Convert log probabilities, shape (1, T), or with entropies, (2, T), to bits."""
    bits = np.stack(scores) / np.log(2)  # (D, 1 or 2, T)
    entropy = bits[:, 1] if bits.shape[1] > 1 else bits[:0, 0]
    return DirectedSurprisals(tokens, known, -bits[:, 0], entropy)
