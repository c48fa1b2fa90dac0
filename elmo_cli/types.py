"""Types that the whole package uses."""

from typing import Final, Literal, get_args

Sentence = list[str]
"""Tokens of a sentence."""
Text = str | Sentence
"""Raw text, or a list of tokens."""
ReadingDirection = Literal["forward", "backward"]
"""Direction in which a text is read, to predict the word after it or before it."""
READING_DIRECTIONS: Final[tuple[ReadingDirection, ...]] = get_args(ReadingDirection)
