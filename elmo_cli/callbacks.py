"""Functions for callers who pass no function of their own, and their types."""

from collections.abc import Callable

OnProgress = Callable[[int], object]
"""Function that is called with the number of things that were just done."""


def ignore(*_: object) -> None:
    """Do nothing, in place of a function that is called back."""


def never(*_: object) -> bool:
    """Return False, in place of a function that is asked something."""
    return False
