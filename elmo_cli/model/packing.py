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
    """Layout of B sentences of N tokens, packed step after step."""

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
    n_steps = int(ordered[0]) if len(ordered) else 0
    # Number of sentences that are longer than 0, 1, ... tokens.
    sizes = np.searchsorted(-ordered, -np.arange(n_steps), side="left")
    # First row of each step, and the end of the last step.
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(np.arange(n_steps), sizes)
    # A row's sentence, counted from the longest.
    ranks = np.arange(offsets[-1]) - offsets[positions]
    reversed_positions = ordered[ranks] - 1 - positions
    return Packing(
        order=order,
        sizes=sizes.tolist(),
        sentences=order[ranks],
        positions=positions,
        reversal=offsets[reversed_positions] + ranks,
    )
