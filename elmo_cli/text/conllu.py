"""CoNLL-U to records: a sentence a record, its words the tokens, its `sent_id` the key.

    # sent_id = fr-1
    # text = Du vin !
    1-2    Du    _    ...      a multiword token, which is left out: its words follow
    1      De    de   ADP
    2      le    le   DET
    2.1    _     _    ...      an empty node, which is left out
    3      vin   vin  NOUN

Fields are separated by tabs; the first two are read. A blank line ends a sentence.
"""

import re
from collections.abc import Iterable, Iterator

from elmo_cli.text.entries import Entry, checked_records
from elmo_cli.text.lines import InvalidLine, Record

_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*)")
_LEFT_OUT = re.compile(r"\d+[-.]\d+")


def read_conllu(lines: Iterable[str], name: str, skip_errors: bool = False) -> Iterator[Record]:
    """The records of CoNLL-U, from lines without white space at their ends; see `checked_records`.

    Raises:
        InputError: a line has no word, or a `sent_id` cannot name a dataset, occurs twice, or
            only some sentences have one.
    """
    return checked_records(_entries(lines), name, skip_errors)


def _entries(lines: Iterable[str]) -> Iterator[Entry]:
    sentence = _Sentence()
    for number, line in enumerate(lines, start=1):
        if line or isinstance(line, InvalidLine):
            sentence.add(number, line)
        else:
            yield from sentence.entries()
            sentence = _Sentence()
    yield from sentence.entries()


class _Sentence:
    """A sentence, line by line."""

    def __init__(self) -> None:
        self._line = 0  # its first one
        self._key: str | None = None
        self._tokens: list[str] = []
        self._unreadable: str | None = None
        self._wrong: tuple[int, str] | None = None  # the first line in error

    def add(self, number: int, line: str) -> None:
        """Take the next line of the file."""
        self._line = self._line or number
        fields = line.split("\t")
        if isinstance(line, InvalidLine):
            self._unreadable = self._unreadable or line.error
        elif line.startswith("#"):
            found = _SENT_ID.match(line)
            self._key = found[1] if found else self._key
        elif fields[0].isdecimal() and len(fields) > 1 and fields[1]:
            self._tokens.append(fields[1])
        elif not _LEFT_OUT.fullmatch(fields[0]):
            self._wrong = self._wrong or (number, _error(fields))

    def entries(self) -> Iterator[Entry]:
        """Its entry; none where there are only comments."""
        line, error = self._wrong or (self._line, None)
        if self._tokens or error or self._unreadable:
            tokens = [] if self._unreadable else self._tokens
            record = Record(" ".join(self._tokens), tokens, self._key, error=self._unreadable)
            yield Entry(line, record, error)


def _error(fields: list[str]) -> str:
    """What is wrong with the fields of a line."""
    if len(fields) < 2:
        return (
            f"expected 10 fields with tabs between, found {fields[0][:60]!r}; --input-format text "
            "reads a sentence a line"
        )
    if not fields[0].isdecimal():
        return f"field 1 (ID): expected a number such as 3, 3-4 or 3.1, found {fields[0][:60]!r}"
    return "field 2 (FORM): expected a word, found none"
