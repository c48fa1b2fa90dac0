"""Numbers as people read them: with their unit, one or many."""


def counted(number: int, unit: str) -> str:
    """A number of things: `1 line`, `2,000 lines`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
