"""Ids of characters, as in the published ELMo models.

The characters of a token are its first 48 UTF-8 bytes. Its row of 50 ids is: word
start, the bytes, word end, padding to the end. Every id in the result is one higher, so
that a row of zeros can mean "no token here".
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN

N_MARKS: Final = 2
"""Number of ids that mark the start and end of a token."""

_SPECIAL: Final = {START_TOKEN: 256, END_TOKEN: 257}
"""Ids before one is added. The ids 0 to 255 are bytes."""
WORD_START: Final = 258
WORD_END: Final = 259
PADDING: Final = 260
N_CHARACTERS: Final = 261


def character_ids(tokens: Sequence[str], max_characters: int = 50) -> NDArray[np.int64]:
    """Return the character ids of N tokens.

    They are int64, shape (N, max_characters), from 1 to 261, which pads a row.

    A literal `<S>` or `</S>` has the row of that boundary. Longer tokens lose their
    last bytes.
    """
    ids = np.full((len(tokens), max_characters), PADDING, dtype=np.int64)
    for row, token in zip(ids, tokens, strict=True):
        codes = _codes(token, max_characters - N_MARKS)
        row[0] = WORD_START
        row[1 : 1 + len(codes)] = codes
        row[1 + len(codes)] = WORD_END
    return ids + 1


def _codes(token: str, longest: int) -> NDArray[np.int64]:
    """Return the ids between the marks of a token, at most `longest`."""
    if token in _SPECIAL:
        return np.array([_SPECIAL[token]], dtype=np.int64)
    # UTF-8 cannot encode lone surrogates. bilm-tf ignores them, too.
    encoded = token.encode("utf-8", "ignore")[:longest]
    return np.frombuffer(encoded, dtype=np.uint8).astype(np.int64)
