"""Tokens to character ids, as every published ELMo model was trained.

A token is its UTF-8 bytes, cut to 48. Its row of 50 ids is: word start, the
bytes, word end, padding to the end. Every id is raised by one in the result, so
that a row of zeros can mean "no token here".
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_CHARACTERS: Final = 50
"""Ids a token, its two end marks included."""

SENTENCE_START: Final = 256
SENTENCE_END: Final = 257
WORD_START: Final = 258
WORD_END: Final = 259
PADDING: Final = 260
N_CHARACTERS: Final = 261
"""Ids 0 to 260, before they are raised by one: 256 bytes and 5 special ones."""

START_TOKEN: Final = "<S>"
END_TOKEN: Final = "</S>"

_SPECIAL = {START_TOKEN: SENTENCE_START, END_TOKEN: SENTENCE_END}


def character_ids(tokens: Sequence[str], max_characters: int = MAX_CHARACTERS) -> NDArray[np.int64]:
    """The ids of the characters of tokens.

    Args:
        tokens: N tokens. A literal `<S>` or `</S>` gives the row of that boundary.
        max_characters: ids a token; longer tokens lose their last bytes.

    Returns:
        int64, shape (N, max_characters), values 1 to 261; 261 pads inside a token.
    """
    ids = np.full((len(tokens), max_characters), PADDING, dtype=np.int64)
    for row, token in zip(ids, tokens, strict=True):
        codes = _codes(token, max_characters - 2)
        row[0] = WORD_START
        row[1 : 1 + len(codes)] = codes
        row[1 + len(codes)] = WORD_END
    return ids + 1


def _codes(token: str, longest: int) -> NDArray[np.int64]:
    if token in _SPECIAL:
        return np.array([_SPECIAL[token]], dtype=np.int64)
    # Lone surrogates have no UTF-8; like bilm-tf, they are left out.
    encoded = token.encode("utf-8", "ignore")[:longest]
    return np.frombuffer(encoded, dtype=np.uint8).astype(np.int64)
