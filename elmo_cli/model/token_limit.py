"""Length of a token that a model reads."""

from typing import Literal, NamedTuple


class TokenLimit(NamedTuple):
    """Length of a token that a model reads, in bytes of UTF-8 or in characters."""

    length: int
    unit: Literal["bytes", "characters"]
