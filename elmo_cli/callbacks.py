"""Functions for callers who pass no function of their own."""

from typing import Any


def ignore(*_: object) -> Any:
    """Do nothing, in place of a function that is called back."""


def never(*_: object) -> bool:
    """Return False, in place of a function that is asked something."""
    return False
