"""Check of activations for NaN and infinity, which finite weights can give."""

import logging
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

_FLOAT16_LIMIT: Final = 65520
"""Smallest number that float16 rounds to infinity."""


def warn(message: str) -> None:
    """Log a warning."""
    logger.warning("Warning: %s", message)


class FiniteCheck:
    """Check of the activations that an output gets. It reports the first that are not finite."""

    def __init__(
        self, output: object, unit: str, dtype: str, report: Callable[[str], object] = warn
    ) -> None:
        """Check nothing yet.

        Args:
            output: Name of the output, for the report.
            unit: Word for a record, such as `line`.
            dtype: Data type of the stored values.
            report: Function that is called once, with a sentence.
        """
        self._output, self._unit, self._report = output, unit, report
        self._is_half = dtype == "float16"
        self._has_reported = False

    def add(self, values: NDArray[Any], number: int) -> None:
        """Check the float32 values of a record, given by its number from 1."""
        if not self._has_reported and not _is_finite(values, is_half=self._is_half):
            self._has_reported = True
            advice = "Check the weights of the model."
            if self._is_half:
                advice = "Use --dtype float32, and check the weights of the model."
            self._report(
                f"{self._output}: activations are not finite (NaN or infinity), the first in "
                f"{self._unit} {number:,}. {advice}"
            )


def _is_finite(values: NDArray[Any], *, is_half: bool) -> bool:
    if is_half:
        return bool((np.abs(values) < _FLOAT16_LIMIT).all())
    return bool(np.isfinite(values).all())
