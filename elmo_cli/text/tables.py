"""Tables: rows of CSV, TSV and JSON arrays; see `parquet` for Parquet.

csv, tsv    a header, then one row per record; quotes as in Python's csv
json        an array of objects; each is one row

A row has a text or a list of tokens, and optionally an id. Names of columns are in `Fields`.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from elmo_cli.text.entries import DEFAULT_FIELDS, Entry, Fields, row_record
from elmo_cli.text.lines import InvalidLine
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import Tokenizer

_CHUNK: Final = 1 << 16
_MAX_NAMES: Final = 20
_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,17}")
"""Text of an integer of 64 bits that is written as Python writes it."""


class TableError(ValueError):
    """Error of a whole table. The reader of the file adds its name."""


def csv_entries(
    lines: Iterable[str], tokenizer: Tokenizer, fields: Fields = DEFAULT_FIELDS
) -> Iterator[Entry]:
    """Yield the rows of CSV, given as lines with their ends."""
    return _delimited_entries(lines, ",", tokenizer, fields)


def tsv_entries(
    lines: Iterable[str], tokenizer: Tokenizer, fields: Fields = DEFAULT_FIELDS
) -> Iterator[Entry]:
    """Yield the rows of TSV, given as lines with their ends."""
    return _delimited_entries(lines, "\t", tokenizer, fields)


def _delimited_entries(
    lines: Iterable[str], delimiter: str, tokenizer: Tokenizer, fields: Fields
) -> Iterator[Entry]:
    names: list[str] | None = None
    for line, values, error, unreadable in _delimited_rows(lines, delimiter):
        if names is None:
            if error or unreadable:
                raise TableError(unreadable or f"the header is {error}")
            names = values
            fields = choose_columns(names, fields)
        elif unreadable:
            yield Entry(line, Record("", [], error=unreadable))
        elif error or len(values) != len(names):
            mismatch = f"expected {len(names)} fields, as in the header, found {len(values)}"
            yield Entry(line, Record("", []), error or mismatch)
        else:
            row = dict(zip(names, values, strict=True))
            yield Entry(line, *row_record(row, fields, tokenizer))


class _DelimitedRow(NamedTuple):
    """Row of CSV or TSV."""

    line: int
    """Number of its first line."""
    values: list[str]
    error: str | None
    """Error in its format."""
    unreadable: str | None
    """Error of a line that is not UTF-8."""


def _delimited_rows(lines: Iterable[str], delimiter: str) -> Iterator[_DelimitedRow]:
    """Yield the rows of CSV or TSV that are not blank."""
    unreadable: list[str] = []  # errors of the lines of the current row

    def noted_lines() -> Iterator[str]:
        for line in lines:
            if isinstance(line, InvalidLine):
                unreadable.append(line.error)
            yield line

    reader = csv.reader(noted_lines(), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        unreadable.clear()
        error, values = None, list[str]()
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as reason:
            error = f"not valid {'CSV' if delimiter == ',' else 'TSV'}: {reason}"
        if values or error:
            yield _DelimitedRow(line, values, error, unreadable[0] if unreadable else None)


def choose_columns(names: Sequence[str], fields: Fields) -> Fields:
    """Return the columns of a table that are read.

    Raises:
        TableError: a column is missing or ambiguous. The error lists the columns.
    """
    text = next((name for name in fields.text if name in names), None)
    shown = ", ".join(map(repr, names[:_MAX_NAMES])) + (", ..." if names[_MAX_NAMES:] else "")
    listing = f"The columns are {shown or 'missing'}."
    if text is None:
        text_names = " or ".join(map(repr, fields.text))
        raise TableError(f"no column {text_names}. {listing} Name the text with --text-column.")
    has_id = fields.id in names
    if fields.is_id_required and not has_id:
        raise TableError(f"no column {fields.id!r}. {listing} Name the ids with --id-column.")
    kept_columns = fields.kept_columns
    if kept_columns is None:
        kept_columns = tuple(name for name in names if name not in (text, fields.id))
    for name in (text, *([fields.id] if has_id else []), *kept_columns):
        if name not in names:
            raise TableError(f"no column {name!r}. {listing}")
        if names.count(name) > 1:
            raise TableError(f"several columns {name!r}. {listing} Rename all but one of them.")
    identifier = fields.id if has_id else None
    return Fields((text,), identifier, fields.is_id_required, kept_columns, fields.has_integer_ids)


def has_integer_ids(lines: Iterable[str], delimiter: str, fields: Fields) -> bool:
    """Return whether all ids of CSV or TSV are the texts of integers.

    Readers of tables guess the type of a column in the same way. Errors of the table are left to
    the reader of its records.
    """
    rows = _delimited_rows(lines, delimiter)
    header = next(rows, None)
    if header is None or fields.id is None or header.values.count(fields.id) != 1:
        return False
    index = header.values.index(fields.id)
    n_rows = 0
    for row in rows:
        if not row.error and len(row.values) == len(header.values):
            n_rows += 1
            if not _INTEGER.fullmatch(row.values[index]):
                return False
    return n_rows > 0


def json_array_entries(
    chunks: Iterable[str], tokenizer: Tokenizer, fields: Fields = DEFAULT_FIELDS
) -> Iterator[Entry]:
    """Yield the objects of a JSON array, given in pieces of any length."""
    for number, row in enumerate(_json_values(_JsonText(chunks)), start=1):
        if isinstance(row, dict):
            yield Entry(number, *row_record(row, fields, tokenizer))
        else:
            error = f"expected a JSON object, found {json.dumps(row)[:60]}"
            yield Entry(number, Record("", []), error)


class _JsonText:
    """JSON that is read in pieces."""

    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = iter(chunks)
        self._text, self._position = "", 0
        self._decode = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """Return the next character that is no whitespace, or an empty string at the end."""
        while True:
            while self._text[self._position : self._position + 1].isspace():
                self._position += 1
            if self._position < len(self._text) or not self._read_more():
                return self._text[self._position : self._position + 1]

    def skip(self) -> None:
        """Go to the next character."""
        self._position += 1

    def value(self) -> Any:
        """Return the next value."""
        self.peek()
        while True:
            try:
                value, self._position = self._decode(self._text, self._position)
            except RecursionError:
                raise ValueError("too many nested brackets") from None
            except ValueError:
                if not self._read_more():
                    raise
            else:
                return value

    def _read_more(self) -> bool:
        """Read as much again as is left, so that a long value is parsed only a few times."""
        text = [self._text[self._position :]]
        n_to_read = max(_CHUNK, len(text[0]))
        for chunk in self._chunks:
            text.append(chunk)
            n_to_read -= len(chunk)
            if n_to_read <= 0:
                break
        self._text, self._position = "".join(text), 0
        return len(text) > 1


def _json_values(text: _JsonText) -> Iterator[Any]:
    """Yield the values of an array."""
    if text.peek() != "[":
        raise TableError(
            f"expected a JSON array of objects, found {text.peek()!r}. If each line is an object, "
            "use --input-format jsonl."
        )
    text.skip()
    for number in range(1, 1 << 62):
        if number == 1 and text.peek() == "]":
            return
        try:
            yield text.value()
        except ValueError as error:
            raise TableError(f"record {number}: not valid JSON: {error}") from None
        separator = text.peek()
        text.skip()
        if separator == "]":
            return
        if separator != ",":
            description = repr(separator) if separator else "the end of the file"
            raise TableError(f"record {number}: expected `,` or `]` after it, found {description}")
