"""A vocabulary file, a word a line, and the ids it gives to words.

bilm-tf's form: `<S>`, `</S>` and `<UNK>` first, then words by falling count.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.model.characters import END_TOKEN, START_TOKEN
from elmo_cli.text.lines import not_utf8, read_text

UNKNOWN_TOKEN: Final = "<UNK>"
SPECIAL_TOKENS: Final = (START_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""What every vocabulary has; first, where it is written here."""


class Vocabulary:
    """Words in the order of their ids."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self._index = {word: index for index, word in enumerate(self.words)}
        missing = [word for word in SPECIAL_TOKENS if word not in self._index]
        if missing:
            raise InputError(
                f"a vocabulary needs the words {', '.join(missing)}, each on a line of its own"
            )
        self._unknown = self._index[UNKNOWN_TOKEN]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._index

    def indices(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """The line of each token, from 0; that of `<UNK>` for others. Int64, shape (N,)."""
        lookup, unknown = self._index.get, self._unknown
        return np.fromiter((lookup(token, unknown) for token in tokens), np.int64, len(tokens))


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary file; an `InputError` says what is wrong with it."""
    words = read_words(path)
    try:
        return Vocabulary(words)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_words(path: str | Path) -> list[str]:
    """The words of a file, one a line, whichever they are."""
    try:
        text = read_text(path)
    except OSError as error:
        raise InputError(f"{path}: cannot read the vocabulary: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    return [line.strip() for line in text.rstrip("\r\n").split("\n")]
