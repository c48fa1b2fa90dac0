"""Bootstrap: standard errors and intervals of figures, by drawing the data again.

Data that belongs together (the tokens of a sentence, the sentences of a word) is drawn
together. All columns are drawn in one way, so that their differences have intervals
too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

N_DRAWS = 1000
COVERAGE = 0.95
"""Share of the draws inside an interval."""
_DRAWS_AT_ONCE = 50


@dataclass(frozen=True)
class Estimate:
    """K figures and their values in each draw."""

    values: Floats
    """Shape (K,)."""
    draws: Floats
    """Shape (N_DRAWS, K)."""

    @property
    def errors(self) -> Floats:
        """Standard error of each figure, shape (K,)."""
        errors: Floats = self.draws.std(axis=0, ddof=1)
        return errors

    @property
    def intervals(self) -> Floats:
        """Low and high end of each figure's interval, shape (K, 2)."""
        ends = (0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2)
        intervals: Floats = np.quantile(self.draws, ends, axis=0).T
        return intervals

    def difference(self, first: int, second: int) -> "Estimate":
        """Return the first figure minus the second, as an estimate with K = 1."""
        return Estimate(
            self.values[[first]] - self.values[[second]],
            self.draws[:, [first]] - self.draws[:, [second]],
        )


def draw_totals(sums: Floats, seed: int = 0) -> Floats:
    """Draw as many groups as there are, with replacement, and add up their sums.

    Args:
        sums: The sums of each group, shape (G, K).
        seed: Seed of the draws.

    Returns:
        The totals of each draw, shape (N_DRAWS, K).
    """
    n_groups = len(sums)
    generator = np.random.default_rng(seed)
    even = np.full(n_groups, 1 / n_groups)
    blocks = []
    for start in range(0, N_DRAWS, _DRAWS_AT_ONCE):  # A block bounds the memory.
        n_draws = min(_DRAWS_AT_ONCE, N_DRAWS - start)
        blocks.append(
            generator.multinomial(n_groups, even, size=n_draws).astype(float) @ sums
        )
    return np.concatenate(blocks)


def ratio_of_groups(
    numerators: Floats, denominators: Floats, groups: Numbers
) -> Estimate:
    """Estimate the sum of numerators over the sum of denominators, in each column.

    Args:
        numerators: Shape (N, K).
        denominators: Shape (N, K).
        groups: The group of each row, any numbers; shape (N,).
    """
    numbered = np.unique(groups, return_inverse=True)[1]
    columns = np.hstack([numerators, denominators]).astype(float)
    by_column = [np.bincount(numbered, column) for column in columns.T]
    sums = np.stack(by_column, axis=1).astype(float)  # (G, 2 K)
    totals = np.vstack([sums.sum(axis=0), draw_totals(sums)])
    above, below = np.hsplit(totals, 2)
    # A draw can miss every row that counts in a column.
    ratios = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return Estimate(ratios[0], ratios[1:])


def mean_of_groups(scores: Floats, groups: Numbers) -> Estimate:
    """Estimate the mean of scores that come in groups.

    Args:
        scores: Shape (N, K).
        groups: The group of each row, any numbers; shape (N,).
    """
    return ratio_of_groups(scores, np.ones_like(scores, dtype=float), groups)
