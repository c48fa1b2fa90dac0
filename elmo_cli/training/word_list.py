"""Files of words to predict, without the further columns of lists of frequencies."""

from pathlib import Path

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import literal
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.model.vocabulary_files import read_vocabulary, read_words

_MAX_COLUMNS_SHARE = 0.5
"""Maximum share of the words of a vocabulary that may have white space inside."""


def read_word_list(path: str | Path) -> Vocabulary:
    """Read a vocabulary file, and check that its lines are words, without columns."""
    words = read_words(path)
    lines_with_columns = [
        line for line, word in enumerate(words, start=1) if len(word.split()) > 1
    ]
    n_allowed = max(0, _MAX_COLUMNS_SHARE * (len(words) - len(SPECIAL_TOKENS)))
    if len(lines_with_columns) > n_allowed:
        line = lines_with_columns[0]
        found = words[line - 1]
        first = found.split()[0]
        is_number = first.replace(".", "", 1).isdecimal()
        column = 2 if is_number else 1
        raise InputError(
            f"{path}, line {line}: expected one word per line, found {found[:60]!r}",
            remedy="Remove the other columns, for example with "
            f"`awk '{{print ${column}}}' {literal(path)}`.",
        )
    return read_vocabulary(path)
