"""Functions for callers who pass no function of their own."""


def ignore(*_: object) -> None:
    """Do nothing, in place of a function that is called back."""


def never(*_: object) -> bool:
    """Return False, in place of a function that is asked something."""
    return False
