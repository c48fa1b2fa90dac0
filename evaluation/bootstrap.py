"""How far a figure may be off: its standard error, by drawing the data again.

What belongs together (the tokens of a sentence, the examples of a word) is drawn
together, and all layers by the same draws, so that their differences have errors too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

N_DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """Figures, and what they are in each draw."""

    values: Floats
    """Shape (K,): a figure a layer, or whatever is compared."""
    draws: Floats
    """Shape (N_DRAWS, K)."""

    @property
    def errors(self) -> Floats:
        """The standard error of each figure, shape (K,)."""
        errors: Floats = self.draws.std(axis=0, ddof=1)
        return errors

    def difference(self, first: int, second: int) -> tuple[float, float]:
        """How much the first figure is above the second, and the standard error of that."""
        error = (self.draws[:, first] - self.draws[:, second]).std(ddof=1)
        return float(self.values[first] - self.values[second]), float(error)


def draw_weights(n_groups: int, seed: int = 0) -> Floats:
    """How often each group is in each draw of `n_groups` with replacement: (N_DRAWS, G)."""
    even = np.full(n_groups, 1 / n_groups)
    return np.random.default_rng(seed).multinomial(n_groups, even, size=N_DRAWS).astype(float)


def mean_of_groups(scores: Floats, groups: NDArray[np.int64]) -> Estimate:
    """The mean of scores that come in groups.

    Args:
        scores: shape (N, K).
        groups: the group of each row, from 0; shape (N,).
    """
    n_groups = int(groups.max()) + 1
    sums = np.stack([np.bincount(groups, column, n_groups) for column in scores.T], axis=1)
    counts = np.bincount(groups, minlength=n_groups)
    weights = draw_weights(n_groups)
    return Estimate(scores.mean(axis=0), (weights @ sums) / (weights @ counts)[:, None])
