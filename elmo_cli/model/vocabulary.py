"""Ids of tokens: of their characters, as in the published ELMo models, or of words.

The characters of a token are its first 48 UTF-8 bytes. Its row of 50 ids is: word start, the
bytes, word end, padding to the end. Every id in the result is one higher, so that a row of zeros
can mean "no token here".

A vocabulary file has one word per line, in bilm-tf's form: `<S>`, `</S>` and `<UNK>` first, then
words by descending count. A line `!!!MAXTERMID` is no word.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import not_read
from elmo_cli.files.text_files import not_utf8, read_text

N_MARKS: Final = 2  # ids of a token that mark its start and end

START_TOKEN: Final = "<S>"
END_TOKEN: Final = "</S>"
BOUNDARIES: Final = (START_TOKEN, END_TOKEN)
_SPECIAL: Final = {START_TOKEN: 256, END_TOKEN: 257}
WORD_START: Final = 258
WORD_END: Final = 259
PADDING: Final = 260
# ids, 0 to 260 before one is added: 256 bytes and 5 special ids
N_CHARACTERS: Final = 261


def character_ids(tokens: Sequence[str], max_characters: int = 50) -> NDArray[np.int64]:
    """Return the ids of N tokens: int64, shape (N, max_characters), 1 to 261, which pads a row.

    A literal `<S>` or `</S>` has the row of that boundary. Longer tokens lose their last bytes.
    """
    ids = np.full((len(tokens), max_characters), PADDING, dtype=np.int64)
    for row, token in zip(ids, tokens, strict=True):
        codes = _codes(token, max_characters - N_MARKS)
        row[0] = WORD_START
        row[1 : 1 + len(codes)] = codes
        row[1 + len(codes)] = WORD_END
    return ids + 1


def _codes(token: str, longest: int) -> NDArray[np.int64]:
    if token in _SPECIAL:
        return np.array([_SPECIAL[token]], dtype=np.int64)
    # UTF-8 cannot encode lone surrogates. bilm-tf ignores them, too.
    encoded = token.encode("utf-8", "ignore")[:longest]
    return np.frombuffer(encoded, dtype=np.uint8).astype(np.int64)


UNKNOWN_TOKEN: Final = "<UNK>"
SPECIAL_TOKENS: Final = (START_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""Words of every vocabulary. They come first in vocabularies that `elmo train` writes."""
MAX_TERM_ID: Final = "!!!MAXTERMID"  # line of some vocabulary files that bilm-tf skips


class Vocabulary:
    """Words in the order of their ids."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self._index = {word: index for index, word in enumerate(self.words)}
        if missing := [word for word in SPECIAL_TOKENS if word not in self._index]:
            words = ", ".join(missing)
            raise InputError(
                f"the vocabulary lacks the words {words}. Add each on its own line."
            )
        self._unknown = self._index[UNKNOWN_TOKEN]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._index

    @staticmethod
    def has_line_for(word: str) -> bool:
        """Return whether a word of a text can be a line of the file, as `read_words` reads it."""
        is_special = word in (*SPECIAL_TOKENS, MAX_TERM_ID, "")
        return word == word.strip() and "\n" not in word and not is_special

    def indices(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Return the index of each token, from 0: int64, (N,). Unknown tokens count as `<UNK>`."""
        lookup, unknown = self._index.get, self._unknown
        return np.fromiter(
            (lookup(token, unknown) for token in tokens), np.int64, len(tokens)
        )


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary file. Raise an `InputError` for another file."""
    words = read_words(path)
    try:
        return Vocabulary(words)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_words(path: str | Path) -> list[str]:
    """Read the words of a file, one per line, without checking them or `!!!MAXTERMID`."""
    try:
        text = read_text(path)
    except OSError as error:
        raise not_read(path, "vocabulary", error, InputError) from None
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), error) from None
    words = (line.strip() for line in text.rstrip("\r\n").split("\n"))
    return [word for word in words if word != MAX_TERM_ID]
