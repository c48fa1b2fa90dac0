"""Layout of sentences of different lengths that computes no padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Packing:
    """Layout of sentences of different lengths, packed step after step (see above)."""

    order: NDArray[np.int64]  # indices of the sentences, the longest first, (B,)
    sizes: list[
        int
    ]  # number of sentences that still run at each step, in descending order
    sentences: NDArray[np.int64]  # sentence of each packed row, (N,)
    positions: NDArray[np.int64]  # position of each packed row in its sentence, (N,)
    reversal: NDArray[
        np.int64
    ]  # row that replaces each row in reversed sentences, (N,)


def pack(lengths: Sequence[int] | NDArray[np.int64]) -> Packing:
    """Return the packed layout of sentences of the given lengths. Empty sentences take no row."""
    all_lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-all_lengths, kind="stable")
    ordered = all_lengths[order]
    n_steps = int(ordered[0]) if len(ordered) else 0
    # Number of sentences that are longer than 0, 1, ... tokens.
    sizes = np.searchsorted(-ordered, -np.arange(n_steps), side="left")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(np.arange(n_steps), sizes)
    ranks = np.arange(offsets[-1]) - offsets[positions]
    reversal = offsets[ordered[ranks] - 1 - positions] + ranks
    return Packing(order, sizes.tolist(), order[ranks], positions, reversal)


def _steps(sizes: Sequence[int]) -> list[slice]:
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
