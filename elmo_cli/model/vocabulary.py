"""Words that a model reads or predicts, in the order of their ids."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.exceptions import InputError

START_TOKEN: Final = "<S>"
END_TOKEN: Final = "</S>"
BOUNDARIES: Final = (START_TOKEN, END_TOKEN)
UNKNOWN_TOKEN: Final = "<UNK>"
SPECIAL_TOKENS: Final = (START_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""Words of every vocabulary. They come first in vocabularies that `elmo train`
writes."""
MAX_TERM_ID: Final = "!!!MAXTERMID"
"""Line of some vocabulary files that bilm-tf skips."""


class Vocabulary:
    """Words in the order of their ids."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self._index = {word: index for index, word in enumerate(self.words)}
        missing = [word for word in SPECIAL_TOKENS if word not in self._index]
        if missing:
            raise InputError(
                f"the vocabulary lacks the words {', '.join(missing)}",
                remedy="Add each on its own line.",
            )
        self._unknown = self._index[UNKNOWN_TOKEN]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._index

    @staticmethod
    def has_line_for(word: str) -> bool:
        """Return whether a word of a text can be a line of a vocabulary file."""
        if word in (*SPECIAL_TOKENS, MAX_TERM_ID, ""):
            return False
        return word == word.strip() and "\n" not in word

    def indices(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Return the index of each token, from 0: int64, (N,).

        Unknown tokens count as `<UNK>`.
        """
        lookup = self._index.get
        unknown = self._unknown
        return np.fromiter(
            (lookup(token, unknown) for token in tokens), np.int64, len(tokens)
        )
