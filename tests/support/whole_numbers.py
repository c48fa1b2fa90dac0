"""Rounding to whole numbers, with a scale per row, as in kernels_integers.h."""

import numpy as np

from tests.support.reference import Array

SINGLE = np.float32


def round_rows(values: Array, most: int) -> tuple[Array, Array]:
    """Return the whole numbers of rows, int64, and the scales, float32, (N, 1)."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    largest = np.maximum(largest, SINGLE(1e-30))
    factor = SINGLE(most) / largest
    # Products of two float32 are exact in float64.
    whole = np.rint(values.astype(float) * factor.astype(float))
    return whole.astype(np.int64), largest / SINGLE(most)


def round_weights(weight: Array, most: int) -> tuple[Array, Array]:
    """Return the whole numbers of weights, int64, and the scales, float32, (out,)."""
    largest = np.abs(weight).max(axis=1)
    scales = np.maximum(largest, SINGLE(1e-30)) / SINGLE(most)
    whole = np.rint(weight / scales[:, None])
    return whole.astype(np.int64), scales
