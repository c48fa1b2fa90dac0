"""Surprisal of the tokens of sentences in each direction, in bits.

It is -log2 of the probability of a token.

A token that is not in the vocabulary has the surprisal of `<UNK>`, which covers all
unknown words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.language_model.language_model import (
    LanguageModel,
    Predictions,
    check_language_model,
)
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction, reading_directions
from elmo_cli.types import ReadingDirection, Sentence, Text


class DirectedSurprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence in K directions, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (K, T), or with the boundary (K, T + 1)."""
    entropy: NDArray[np.float64] | None
    """Expected surprisal at each position, in the shape of `surprisal`, or None."""


def measure_directions(
    model: LanguageModel,
    texts: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] | None = None,
    *,
    direction: Direction = "both",
    with_entropy: bool = False,
    with_boundary: bool = False,
) -> Iterator[DirectedSurprisals]:
    """Measure the surprisal of each token in one direction, or in both.

    Args:
        model: Language model.
        texts, batch_size, is_ready: As in `LanguageModel.iter_scores`.
        direction: `forward`, `backward` or `both`, in this order.
        with_entropy: Compute the entropy of each prediction too.
        with_boundary: Include the surprisal of `</S>` after the tokens, or, backward,
            of `<S>` before them.
    """
    check_language_model(model)
    directions = reading_directions(direction)

    def compute(batch: list[Sentence], top: Tensor) -> list[DirectedSurprisals]:
        predicted = model.predict_batch(
            batch, top, directions, with_entropy=with_entropy
        )
        return [
            in_bits(tokens, predictions)
            for tokens, predictions in zip(batch, predicted, strict=True)
        ]

    def in_bits(tokens: Sentence, predictions: Predictions) -> DirectedSurprisals:
        known, log_p, entropy = predictions
        if not with_boundary:
            log_p = _of_tokens(log_p, directions)
            entropy = None if entropy is None else _of_tokens(entropy, directions)
        return DirectedSurprisals(
            tokens=tokens,
            known=known,
            surprisal=-log_p / np.log(2),
            entropy=None if entropy is None else entropy / np.log(2),
        )

    nothing = np.empty((len(directions), 0))
    empty = DirectedSurprisals(
        tokens=[],
        known=np.empty(0, bool),
        surprisal=nothing,
        entropy=nothing if with_entropy else None,
    )
    return model.compute_batches(
        texts,
        compute,
        empty,
        directions=directions,
        batch_size=batch_size,
        is_ready=is_ready,
    )


def _of_tokens(
    values: NDArray[np.float64], directions: Sequence[ReadingDirection]
) -> NDArray[np.float64]:
    """Remove the boundary from values of predictions: (K, T + 1) becomes (K, T)."""
    rows = []
    for direction, row in zip(directions, values, strict=True):
        # The forward direction predicts the boundary last, the backward direction
        # first.
        rows.append(row[:-1] if direction == "forward" else row[1:])
    return np.stack(rows)


def directed_columns(name: str, direction: Direction) -> list[str]:
    """Return the names of a column of each direction."""
    if direction == "both":
        return [f"{name}_forward", f"{name}_backward"]
    return [name]
