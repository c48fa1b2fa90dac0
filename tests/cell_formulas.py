"""The elementwise part of an LSTM step, in float64."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cells_after(gates: Array, cells: Array, clip: float) -> tuple[Array, Array]:
    """New cells, and what is projected; see Sak et al. (2014)."""
    i, j, f, o = np.split(gates, 4, axis=1)
    new = np.clip(_sigmoid(i) * np.tanh(j) + _sigmoid(f) * cells, -clip, clip)
    return new, _sigmoid(o) * np.tanh(new)


def _sigmoid(values: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(values / 2)
