"""Scripts that are written without spaces between words."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_MIN_SHARE: Final = 0.05
"""Minimum share of words that are phrases in a script without spaces."""


class UnspacedScript(NamedTuple):
    """Script that is written without spaces between words."""

    language: str
    characters: str
    """Regular expression of one character."""
    max_length: int
    """Length of a word, above which it is probably a phrase."""
    min_share: float
    """Minimum share of the characters in a phrase."""
    code: str | None = None
    """Code of the language, if spaCy splits it into words."""


_SCRIPTS: Final = (
    # Kana come first: Japanese has Chinese characters too.
    UnspacedScript(
        language="Japanese",
        characters="[\u3040-\u30ff]",
        max_length=12,
        min_share=0.2,
        code="ja",
    ),
    UnspacedScript(
        language="Chinese",
        characters="[\u3400-\u4dbf\u4e00-\u9fff]",
        max_length=8,
        min_share=0.5,
        code="zh",
    ),
    UnspacedScript(
        language="Thai",
        characters="[\u0e00-\u0e7f]",
        max_length=20,
        min_share=0.5,
        code="th",
    ),
    UnspacedScript(
        language="Lao",
        characters="[\u0e80-\u0eff]",
        max_length=20,
        min_share=0.5,
    ),
    UnspacedScript(
        language="Burmese",
        characters="[\u1000-\u109f]",
        max_length=20,
        min_share=0.5,
    ),
    UnspacedScript(
        language="Khmer",
        characters="[\u1780-\u17ff]",
        max_length=20,
        min_share=0.5,
    ),
)


def find_unspaced_script(words: Sequence[str]) -> UnspacedScript | None:
    """Return the script of a text, split at spaces, if its words are often phrases."""
    others = [word for word in words if not word.isascii()]
    for script in _SCRIPTS:
        n_phrases = 0
        for word in others:
            if len(word) > script.max_length:
                n_found = len(re.findall(script.characters, word))
                if n_found > script.min_share * len(word):
                    n_phrases += 1
        if n_phrases > _MIN_SHARE * len(words):
            return script
    return None
