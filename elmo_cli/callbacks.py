"""Functions that a caller passes to be called back."""

from typing import Any


def ignore(*_: object) -> Any:
    """Do nothing, in place of a function that is called back."""
