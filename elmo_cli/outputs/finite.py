"""Check that the values of an output are finite, and a warning if they are not.

Finite weights can give NaN and infinity: large ones, or values that float16 cannot
hold.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.messages import Message

logger = logging.getLogger(__name__)

_FLOAT16_LIMIT: Final = 65520
"""Smallest number that float16 rounds to infinity."""


def _log_warning(message: Message) -> None:
    logger.warning("%s", message)


@dataclass
class FiniteCheck:
    """Check of an output's activations, which reports the first bad record."""

    output: object
    """Name of the output in the report."""
    unit: str
    """Word for a record, such as `line`."""
    dtype: str
    """Data type of the stored values."""
    report: Callable[[Message], object] = _log_warning
    """Function that is called once, at the first record with NaN or infinity."""
    has_reported: bool = False
    are_finite: bool | None = None
    """True if all batches so far are finite; None without any batch."""

    def add_batch(self, are_finite: bool) -> None:
        """Note whether all values of a batch are finite in the data type."""
        self.are_finite = are_finite and self.are_finite is not False

    def add(self, values: AnyArray, number: int) -> None:
        """Check the values of a record, float32 or stored, by its number from 1."""
        if self.has_reported or self.are_finite:
            return
        if self.dtype == "float16" and values.dtype == np.float32:
            finite = np.abs(values) < _FLOAT16_LIMIT
        else:
            finite = np.isfinite(values)
        if finite.all():
            return
        self.has_reported = True
        remedy = "Check the weights of the model."
        if self.dtype == "float16":
            remedy = "Use {--dtype float32}, and check the weights of the model."
        self.report(
            Message(
                f"{self.output}: activations are not finite (NaN or infinity), "
                f"the first in {self.unit} {number:,}",
                remedy=remedy,
            )
        )
