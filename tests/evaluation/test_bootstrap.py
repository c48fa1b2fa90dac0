"""Bootstrap: standard errors and intervals agree with what statistics says."""

import bootstrap
import numpy as np
import pytest


def test_the_error_and_the_interval_of_a_mean() -> None:
    scores = np.random.default_rng(1).normal(size=(400, 2))
    estimate = bootstrap.mean_of_groups(scores, np.arange(400))
    assert estimate.values == pytest.approx(scores.mean(axis=0))
    error = scores.std(axis=0) / 20
    assert estimate.errors == pytest.approx(error, rel=0.1)
    bounds = [estimate.values - 1.96 * error, estimate.values + 1.96 * error]
    assert estimate.intervals == pytest.approx(np.stack(bounds, axis=1), abs=0.02)
    # The rows of a group count together.
    four_times = bootstrap.mean_of_groups(np.repeat(scores, 4, axis=0), np.arange(1600) // 4)
    assert four_times.errors == pytest.approx(estimate.errors)


def test_a_difference_is_paired() -> None:
    scores = np.random.default_rng(1).normal(size=(100, 1))
    estimate = bootstrap.mean_of_groups(np.hstack([scores + 1, scores]), np.arange(100))
    difference = estimate.difference(0, 1)
    assert difference.values == pytest.approx([1])
    assert difference.intervals == pytest.approx(np.ones((1, 2)))


def test_a_ratio_divides_sums() -> None:
    right, answered = np.array([[1.0], [1.0], [0.0]]), np.array([[1.0], [1.0], [2.0]])
    estimate = bootstrap.ratio_of_groups(right, answered, np.array([5, 5, 9]))
    assert estimate.values == pytest.approx([0.5])
    # The first group is drawn twice, once or never: ratios 1, 0.5 and 0.
    assert np.unique(estimate.draws).tolist() == [0, 0.5, 1]
    assert estimate.draws.mean() == pytest.approx(0.5, abs=0.05)
