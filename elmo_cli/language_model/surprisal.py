"""Scores of sentences to surprisals: how unexpected each token is, in bits.

The surprisal of a token is minus the logarithm, to the base 2, of its probability in its
context. A token that is not in the vocabulary has the surprisal of `<UNK>`, of any such word.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.batching import DEFAULT_BATCH_SIZE
from elmo_cli.inference.fast_bilm import BACKWARD, FORWARD
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.text.lines import Sentence


class Surprisals(NamedTuple):
    """What a model expected of the T tokens of a sentence, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """Whether each token is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (T,)."""
    entropy: NDArray[np.float64] | None
    """The expected surprisal of the word in each place, shape (T,), if it was asked for."""


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
        sentences, batch_size, is_ready: as in `LanguageModel.score`.
        backward: predict each token from those after it, not from those before it.
        with_entropy: measure how uncertain each prediction is, too.
    """

    def compute(batch: list[Sentence], top: Tensor) -> list[Surprisals]:
        found = model.score_batch(batch, top, directions, with_entropy=with_entropy)
        return [
            _in_bits(tokens, known, scores[:, 1:] if backward else scores[:, :-1])
            for tokens, (known, [scores]) in zip(batch, found, strict=True)
        ]

    directions = BACKWARD if backward else FORWARD
    nothing = _in_bits([], np.empty(0, bool), np.empty((1 + with_entropy, 0)))
    return model.compute_batches(
        sentences,
        compute,
        nothing,
        directions=directions,
        batch_size=batch_size,
        is_ready=is_ready,
    )


def _in_bits(tokens: Sentence, known: NDArray[np.bool_], scores: NDArray[np.float64]) -> Surprisals:
    """From log probabilities and perhaps entropies, shape (1, T) or (2, T)."""
    bits = scores / np.log(2)
    return Surprisals(tokens, known, -bits[0], bits[1] if len(bits) > 1 else None)
