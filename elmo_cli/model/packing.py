"""Layout of sentences of different lengths that computes no padding.

Sentences are packed as in `torch.nn.utils.rnn.PackedSequence`: the longest sentence
comes first, and rows are stored step after step. Each step has only the sentences that
still run.

    step 0   a0 b0 c0       sizes = [3, 2, 1]
    step 1   a1 b1          rows  = a0 b0 c0 a1 b1 a2
    step 2   a2
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Packing:
    """Layout of B sentences of N tokens, packed step after step.

    If sentences 0, 1 and 2 have 1, 3 and 2 tokens, so that a is 1, b is 2 and c is 0:

        order      [1, 2, 0]
        sizes      [3, 2, 1]
        rows        a0 b0 c0 a1 b1 a2
        sentences  [1, 2, 0, 1, 2, 1]
        positions  [0, 0, 0, 1, 1, 2]
        reversal   [5, 4, 2, 3, 1, 0]   rows of a2 b1 c0 a1 b0 a0
    """

    order: NDArray[np.int64]
    """Indices of the sentences, the longest first, (B,)."""
    sizes: list[int]
    """Number of sentences that still run at each step, in descending order."""
    sentences: NDArray[np.int64]
    """Sentence of each packed row, (N,)."""
    positions: NDArray[np.int64]
    """Position of each packed row in its sentence, (N,)."""
    reversal: NDArray[np.int64]
    """Row that replaces each row in reversed sentences, (N,)."""


def pack(lengths: Sequence[int] | NDArray[np.int64]) -> Packing:
    """Return the packed layout of sentences of these lengths.

    Empty ones take no row.
    """
    all_lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-all_lengths, kind="stable")
    ordered = all_lengths[order]
    # Longer than k tokens are all sentences but those that have at most k.
    n_of_length = np.bincount(all_lengths, minlength=1)
    sizes = (len(all_lengths) - np.cumsum(n_of_length))[:-1]
    first_rows = np.cumsum(sizes) - sizes  # of each step
    positions = np.repeat(np.arange(len(sizes)), sizes)
    # Sentence of each row, counted from the longest: the rows of a step are in order.
    ranks = np.arange(len(positions)) - first_rows[positions]
    reversed_positions = ordered[ranks] - 1 - positions
    return Packing(
        order=order,
        sizes=sizes.tolist(),
        sentences=order[ranks],
        positions=positions,
        reversal=first_rows[reversed_positions] + ranks,
    )
