"""Lexicons of ELMoForManyLangs: the row of each character or word in its table."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.errors.wording import quoted
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.vocabulary_files import read_words

_ROW: Final = re.compile(r"[0-9]{1,9}")
_UNKNOWN: Final = "<oov>"
_NAMELESS: Final = "\u3000"
"""Symbol of a line with a number alone: the ideographic space, which `read_words`
strips."""


class Lexicon(dict[str, int]):
    """Row in the table of each character or word."""

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return 1 + max(self.values())

    def row(self, symbol: str) -> int:
        """Return the row of a symbol, or the row of `<oov>` for an unknown symbol."""
        return self.get(symbol, self[_UNKNOWN])


class Lexicons(NamedTuple):
    """Lexicons of a model: of characters, of words, or both."""

    characters: Lexicon | None
    words: Lexicon | None


def read_lexicons(folder: Path, architecture: ManyLangsArchitecture) -> Lexicons:
    """Read the lexicons that a model uses, char.dic and word.dic, from its folder."""
    characters = None
    if architecture.char_cnn is not None:
        characters = _read_lexicon(folder / "char.dic")
    words = None
    if architecture.word_dim > 0:
        words = _read_lexicon(folder / "word.dic")
    return Lexicons(characters=characters, words=words)


def _read_lexicon(path: Path) -> Lexicon:
    """Read a symbol, a tab and its row from each line of a file."""
    lexicon = Lexicon()
    for line in read_words(path):
        if not line:
            continue
        symbol, _, row = line.rpartition("\t")
        if not _ROW.fullmatch(row):
            expected = "a symbol, a tab and the number of its row in each line"
            raise ModelError(f"{path}: expected {expected}, found {quoted(line)}")
        lexicon[symbol or _NAMELESS] = int(row)
    if _UNKNOWN not in lexicon:
        raise ModelError(f"{path}: expected the symbol {_UNKNOWN}, found none")
    return lexicon
