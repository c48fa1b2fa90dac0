"""Scripts that are written without spaces between words."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_MIN_SHARE: Final = 0.05
"""Share of the words from which on phrases show the script of a text."""


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
    UnspacedScript("Japanese", "[\u3040-\u30ff]", 12, 0.2, "ja"),
    UnspacedScript("Chinese", "[\u3400-\u4dbf\u4e00-\u9fff]", 8, 0.5, "zh"),
    UnspacedScript("Thai", "[\u0e00-\u0e7f]", 20, 0.5, "th"),
    UnspacedScript("Lao", "[\u0e80-\u0eff]", 20, 0.5),
    UnspacedScript("Burmese", "[\u1000-\u109f]", 20, 0.5),
    UnspacedScript("Khmer", "[\u1780-\u17ff]", 20, 0.5),
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
