"""Readers of vocabulary files.

A file has one word per line, in bilm-tf's form: `<S>`, `</S>` and `<UNK>` first, then
words by descending count. A line `!!!MAXTERMID` is no word.
"""

from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import (
    empty_file_error,
    is_empty_file,
    unreadable_file_error,
)
from elmo_cli.files.file_types import binary_error
from elmo_cli.files.text_files import not_utf8_error, read_text
from elmo_cli.model.vocabulary import MAX_TERM_ID, Vocabulary

_ADVICE: Final = "Give the name of a file with one word per line."


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary file. Raise an `InputError` for another file."""
    words = read_words(path)
    try:
        return Vocabulary(words)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_words(path: str | Path) -> list[str]:
    """Read the words of a file, one per line, unchecked and without `!!!MAXTERMID`."""
    try:
        text = read_text(path)
    except OSError as error:
        raise unreadable_file_error(
            path, "vocabulary", error=error, kind=InputError
        ) from None
    except UnicodeDecodeError as error:
        other_type = binary_error(str(path), error.object, advice=_ADVICE)
        raise other_type or not_utf8_error(str(path), error) from None
    if is_empty_file(path):
        raise empty_file_error(path, InputError, remedy=_ADVICE)
    words = [line.strip() for line in text.rstrip("\r\n").split("\n")]
    return [word for word in words if word != MAX_TERM_ID]
