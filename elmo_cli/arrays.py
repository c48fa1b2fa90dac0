"""Types of NumPy's arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
"""Activations and vectors as a model computes them."""
AnyArray = NDArray[Any]
"""Values of any data type, such as those of a file."""
