"""Detached tokens: signs that a text is tokenized already."""

import re
from typing import Final, NamedTuple

from elmo_cli.errors.checks import Sentence

_DETACHED: Final = re.compile(
    r"(?<!\S)\S+ (?:['’](?:d|ll|m|re|s|ve)|n['’]t|[.,])(?!\S)"
)
_ATTACHED: Final = re.compile(r"\w{2}[.,](?!\S)|\w['’]s\b")


class DetachedToken(NamedTuple):
    """Token that spaces detach from the word before, such as `'s` in `Alice 's`."""

    shown: str
    """The word and the token."""
    text_is_split: bool
    """True if a tokenizer splits a word of the text again."""


def find_detached_token(text: str, tokens: Sentence) -> DetachedToken | None:
    """Return the first detached token of a text with these tokens, if it has any.

    A text with attached punctuation has none.
    """
    if _ATTACHED.search(text):
        return None
    match = _DETACHED.search(text)
    if match is None:
        return None
    # Marks of regions are no tokens.
    n_words = len(text.replace("|", " ").split())
    return DetachedToken(match[0], text_is_split=len(tokens) > n_words)
