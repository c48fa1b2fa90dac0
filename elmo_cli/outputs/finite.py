"""Check that the values of an output are finite."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)


_FLOAT16_LIMIT: Final = 65520  # smallest number that float16 rounds to infinity


@dataclass
class FiniteCheck:
    """Check of the activations that an output gets. It reports the first that are not finite."""

    output: object
    unit: str  # word for a record, such as `line`
    dtype: str  # data type of the stored values
    report: Callable[[str], object] = lambda message: logger.warning(
        "Warning: %s", message
    )
    """Function that is called once, with a sentence."""
    has_reported: bool = False
    are_finite: bool | None = None  # True if all batches so far are; None without any

    def add_batch(self, are_finite: bool) -> None:
        """Note whether all values of a batch are finite in the data type."""
        self.are_finite = are_finite and self.are_finite is not False

    def add(self, values: NDArray[Any], number: int) -> None:
        """Check the values of a record, float32 or stored, given by its number from 1."""
        if self.has_reported or self.are_finite:
            return
        is_half = self.dtype == "float16"
        is_large = is_half and values.dtype == np.float32
        finite = np.abs(values) < _FLOAT16_LIMIT if is_large else np.isfinite(values)
        if not finite.all():
            self.has_reported = True
            remedy = "Use --dtype float32, and check" if is_half else "Check"
            self.report(
                f"{self.output}: activations are not finite (NaN or infinity), the first in "
                f"{self.unit} {number:,}. {remedy} the weights of the model."
            )
