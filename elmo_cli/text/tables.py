"""Tables: rows of CSV, TSV and JSON arrays; see `parquet` for Parquet.

csv, tsv    a header, then one row per record; quotes as in Python's csv
json        an array of objects; each is one row

A row has a text or a list of tokens, and optionally an id. Names of columns are in `Fields`.

Parquet: the rows of a file, or of a stretch of it, and the size of its text.
"""

import csv
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError, first_line, load_extra
from elmo_cli.text.parsers import DEFAULT_FIELDS, Entry, Fields, row_record
from elmo_cli.text.records import Record
from elmo_cli.text.sources import InvalidLine, size_in_bytes
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


_BATCH_ROWS: Final = 1024
_BUFFER_BYTES: Final = 1 << 20


class ParquetSize(NamedTuple):
    """Size of a file."""

    n_rows: int
    n_text_bytes: int
    """Bytes of the column with the text, before compression."""
    id_type: Any
    """Type of Arrow of the column with the ids; None without ids."""
    kept_types: dict[str, Any]
    """Types of Arrow of the columns that are kept."""


def parquet_entries(
    source: Any,
    tokenizer: Tokenizer,
    fields: Fields = DEFAULT_FIELDS,
    on_bytes: Callable[[int], object] = lambda count: None,
    rows: range | None = None,
) -> Iterator[Entry]:
    """Yield the rows of a Parquet file, which are read in batches.

    Args:
        source: Path of the file, or the open file.
        tokenizer: Tokenizer of texts.
        fields: Columns that are read.
        on_bytes: Called after each batch with its share of the size of the file.
        rows: Numbers of the rows that are read, from 0. None is all of them.

    Raises:
        TableError: The file is damaged, or a column is missing.
    """
    with _opened(source) as file:
        fields = choose_columns(file.schema_arrow.names, fields)
        rows = range(file.metadata.num_rows) if rows is None else rows
        size, n_read, n_told = size_in_bytes(source) or 0, 0, 0
        for first, batch in _batches(file, _names(fields), rows):
            for number, row in enumerate(batch, first + 1):
                yield Entry(number, *row_record(row, fields, tokenizer))
            n_read += len(batch)
            on_bytes(size * n_read // len(rows) - n_told)
            n_told = size * n_read // len(rows)


def parquet_size(source: Any, fields: Fields = DEFAULT_FIELDS) -> ParquetSize:
    """Return the size of a file by its footer; see `parquet_entries`."""
    with _opened(source) as file:
        schema, footer = file.schema_arrow, file.metadata.to_dict()
    fields = choose_columns(schema.names, fields)
    leaves = (leaf for group in footer["row_groups"] for leaf in group["columns"])
    # Leaves of a list are called `column.list.element`, and a column may have dots in its name.
    n_text_bytes = sum(
        leaf["total_uncompressed_size"]
        for leaf in leaves
        if f"{leaf['path_in_schema']}.".startswith(f"{fields.text[0]}.")
    )
    kept_types = {name: schema.field(name).type for name in fields.kept_columns or ()}
    id_type = None if fields.id is None else schema.field(fields.id).type
    return ParquetSize(footer["num_rows"], n_text_bytes, id_type, kept_types)


def _names(fields: Fields) -> list[str]:
    """Return the columns that are read, each once."""
    names = [*fields.text, *([fields.id] if fields.id else []), *(fields.kept_columns or ())]
    return list(dict.fromkeys(names))


def _batches(
    file: Any, names: list[str], rows: range
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield some rows, of the row groups that have them, each batch with its first number."""
    groups = range(file.num_row_groups)
    ends = [0, *accumulate(file.metadata.row_group(group).num_rows for group in groups)]
    first, stop = bisect_right(ends, rows.start) - 1, bisect_left(ends, rows.stop)
    number = ends[first]
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=range(first, stop), columns=names):
        start, end = (min(max(row - number, 0), len(batch)) for row in (rows.start, rows.stop))
        if start < end:
            yield number + start, batch.slice(start, end - start).to_pylist()
        number += len(batch)


@contextmanager
def _opened(source: Any) -> Iterator[Any]:
    """Open a file with pyarrow. Its errors in the block become a `TableError`."""
    parquet = load_extra("Parquet", "pyarrow.parquet", "parquet")
    from pyarrow import ArrowException

    source = str(source) if isinstance(source, Path) else source
    try:
        with parquet.ParquetFile(source, buffer_size=_BUFFER_BYTES) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise TableError(f"cannot read the Parquet file: {first_line(error)}") from None


def column_types(path: str) -> dict[str, Any]:
    """Return the types of Arrow of the columns of a Parquet file."""
    try:
        with _opened(path) as file:
            schema = file.schema_arrow
    except TableError as error:
        raise InputError(f"{path}: {error}") from None
    return dict(zip(schema.names, schema.types, strict=True))
