"""CSV and TSV: tables of lines, whose header names the columns."""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Literal

from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import TableError, choose_columns, row_record
from elmo_cli.records.record import Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer

_DELIMITERS: Final = (",", ";", "\t", "|")


_SEP_LINE: Final = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""Line before the header that names the delimiter, as Excel reads it."""


_SPACED_QUOTES: Final = re.compile(r'(?:^|\t)(" [^"\t]* ")(?=[\t\r\n]|$)')
"""Cell of TSV in quotes that are probably tokens of its text."""


_OR_CSV: Final = ", and if they enclose cells or lines, --quotes csv"


def delimited_entries(
    lines: Iterable[str],
    tokenizer: Tokenizer,
    settings: TextSettings,
    *,
    delimiter: str,
) -> Iterator[Entry]:
    """Yield the rows of CSV or TSV, given as lines with their ends."""
    names: list[str] | None = None
    for line, values, error, unreadable in _delimited_rows(lines, settings, delimiter):
        if names is None:
            if error or unreadable:
                raise TableError(unreadable or f"the header is {error}")
            names = values
            settings = choose_columns(names, settings, has_lists=False)
        elif unreadable:
            yield Entry(line, Record("", [], error=unreadable))
        elif error or len(values) != len(names):
            mismatch = (
                f"expected {len(names)} fields, as in the header, found {len(values)}"
            )
            yield Entry(line, Record("", []), error or mismatch)
        else:
            row = dict(zip(names, values, strict=True))
            yield Entry(line, *row_record(row, settings, tokenizer))


def _delimited_rows(
    lines: Iterable[str], settings: TextSettings, delimiter: str
) -> Iterator[tuple[int, list[str], str | None, str | None]]:
    """Yield the rows of CSV or TSV that have content; `delimiter` is the usual one of the format.

    Each has its first line's number, its values, its error, and the error of a line not in UTF-8.
    """
    unreadable: list[str] = []  # errors of the lines of the current row

    def note(line: str) -> str:
        if isinstance(line, InvalidLine):
            unreadable.append(line.error)
        return line

    noted = map(note, lines)
    number, header, delimiter = _find_header(noted, settings, delimiter)
    is_tsv = delimiter == "\t"
    cells_have_lines = not is_tsv or settings.quotes is not None
    advice = (
        f"If quotes are text, use --quotes none{'' if cells_have_lines else _OR_CSV}"
    )
    may_be_text = not cells_have_lines and '"' not in header
    quoting: Literal[0, 3] = (
        csv.QUOTE_NONE if settings.quotes == "none" else csv.QUOTE_MINIMAL
    )
    csv.field_size_limit(max(csv.field_size_limit(), MAX_TEXT_BYTES))
    for first in chain([header] if header else [], noted):
        row = chain([first], noted if cells_have_lines else [])
        reader = csv.reader(row, delimiter=delimiter, quoting=quoting, strict=True)
        error, values = None, list[str]()
        try:
            values = next(reader)
        except csv.Error as reason:
            error = str(reason).replace(
                "unexpected end of data", "a quoted cell has no end"
            )
            error = f"not valid {'TSV' if is_tsv else 'CSV'}: {error}. {advice}."
        if may_be_text and (match := _SPACED_QUOTES.search(first)):
            error = f"the cell {match[1][:60]} is in quotes. {advice}."
        if error or any(values) or len(values) == 1:
            yield number, values, error, unreadable[0] if unreadable else None
        unreadable.clear()
        number += reader.line_num


def _find_header(
    lines: Iterable[str], settings: TextSettings, usual: str
) -> tuple[int, str, str]:
    """Return the number of the first line of a table, the line, and the delimiter."""
    delimiter = settings.delimiter
    for number, line in enumerate(lines, start=1):
        if match := _SEP_LINE.fullmatch(line):
            delimiter = delimiter or match[1]
        elif line.strip():
            return number, line, delimiter or _delimiter_of(line, settings, usual)
    return 0, "", usual


def _delimiter_of(header: str, settings: TextSettings, usual: str) -> str:
    """Return the delimiter that gives the column of the text, or else the most columns."""

    def fit(delimiter: str) -> tuple[bool, int]:
        names = next(csv.reader([header], delimiter=delimiter))
        return any(name in names for name in settings.text_columns), len(names)

    return max((usual, *_DELIMITERS), key=fit)  # The first one of equal ones is used.


def column_names(
    lines: Iterable[str], settings: TextSettings, delimiter: str
) -> list[str]:
    """Return the names in the header of CSV or TSV. Errors are reported later."""
    return next(
        (names for _, names, *_ in _delimited_rows(lines, settings, delimiter)), []
    )
