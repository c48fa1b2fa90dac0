"""Parsers of tables: CSV, TSV, JSON arrays and Parquet.

A row has a text or a list of tokens, and optionally an id. `TextSettings` names the columns. CSV
and TSV have a header, which shows the delimiter. JSON is read as a whole, and Parquet in batches.
"""

import csv
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any, Final, Literal

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import did_you_mean, first_line
from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.options.text import ALL_COLUMNS, NO_ID, TextSettings
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.parsers import Entry, or_word_column, row_record
from elmo_cli.text.records import NumericId, Record
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer

_MAX_NAMES: Final = 20
_INTEGER: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(?:\.0)?")
"""Text of an integer that is written as Python writes it, or as pandas if an id is missing."""
_DELIMITERS: Final = (",", ";", "\t", "|")
_SEP_LINE: Final = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""Line before the header that names the delimiter, as Excel reads it."""
_SPACED_QUOTES: Final = re.compile(r'(?:^|\t)(" [^"\t]* ")(?=[\t\r\n]|$)')
"""Cell of TSV in quotes that are probably tokens of its text."""
_OR_CSV: Final = ", and if they enclose cells or lines, --quotes csv"


class TableError(ValueError):
    """Error of a whole table, without the name of the file."""


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


def choose_columns(
    names: Sequence[str], settings: TextSettings, *, has_lists: bool = True
) -> TextSettings:
    """Return settings that name the columns of a table that are read, each of which it has once."""
    # A column of tokens comes before the text only if its cells are lists.
    text_columns = settings.text_columns[:: 1 if has_lists else -1]
    text = next((name for name in text_columns if name in names), None)
    shown = ", ".join(map(repr, names[:_MAX_NAMES])) + (
        ", ..." if names[_MAX_NAMES:] else ""
    )
    listing = f"The columns are {shown or 'missing'}."
    if text is None:
        text_names = " or ".join(map(repr, settings.text_columns))
        option = "--word-column" if settings.word_column else settings.text_option
        remedy = f"Choose one with {option}{or_word_column(names, settings)}."
        raise TableError(f"no column {text_names}. {listing} {remedy}")

    def missing(name: str, option: str) -> TableError:
        problem = f"no column {name!r}. {listing}{did_you_mean(name, names)}"
        return TableError(f"{problem} Choose one with {option}.")

    id_name = settings.id_name if settings.id_name in names else None
    if settings.id_column and id_name is None:
        raise missing(settings.id_column, "--id-column")
    kept_columns = settings.keep_columns
    if kept_columns == ALL_COLUMNS:
        kept_columns = tuple(name for name in names if name not in (text, id_name))
    for name in (text, *([] if id_name is None else [id_name]), *kept_columns):
        if name not in names:
            raise missing(name, "--keep-columns")
        if names.count(name) > 1:
            raise TableError(
                f"several columns {name!r}. {listing} Rename all but one of them."
            )
    id_column = NO_ID if id_name is None else settings.id_column
    text_column = text if settings.word_column is None else None
    return replace(
        settings,
        text_column=text_column,
        id_column=id_column,
        keep_columns=kept_columns,
    )


def is_integer(cell: str) -> bool:
    """Return whether a cell is the text of an integer of 64 bits."""
    match = _INTEGER.fullmatch(cell)
    return match is not None and -(1 << 63) <= int(match[1]) < 1 << 63


def with_integer_id(entry: Entry) -> Entry:
    """Return an entry of CSV or TSV whose id is an integer; see `is_integer`."""
    identifier = entry.record.id
    numeric = None if identifier is None else NumericId(identifier.removesuffix(".0"))
    return entry._replace(record=entry.record._replace(id=numeric))


def json_array_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the objects of a JSON array, given as lines with their ends."""
    parts = list(lines)
    if error := next(
        (line.error for line in parts if isinstance(line, InvalidLine)), None
    ):
        raise InputError(error)
    text = "".join(parts)
    if (first := text.lstrip()[:1]) != "[":
        remedy = "If each line is an object, use --input-format jsonl."
        raise TableError(f"expected a JSON array of objects, found {first!r}. {remedy}")
    try:
        rows = json.loads(text)
    except RecursionError:
        raise TableError("not valid JSON: too many nested brackets") from None
    except json.JSONDecodeError as reason:
        location = f"line {reason.lineno}, column {reason.colno}"
        raise TableError(f"not valid JSON ({location}): {reason.msg}") from None
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield Entry(number, *row_record(row, settings, tokenizer))
        else:
            error = f"expected a JSON object, found {json.dumps(row)[:60]}"
            yield Entry(number, Record("", []), error)


def parquet_entries(
    file: Any,
    tokenizer: Tokenizer,
    settings: TextSettings,
    *,
    rows: range | None = None,
    size: int = 0,
    on_bytes: Callable[[int], object] = ignore,
    only_ids: bool = False,
) -> Iterator[Entry]:
    """Yield the rows of an open Parquet file, or a range of them, numbered from 0, in batches.

    After each batch, `on_bytes` is called with its share of the size of the file. With `only_ids`,
    texts are not read, and all are empty.
    """
    with _opened(file) as table:
        settings = _choose_fields(table.schema_arrow, settings)
        id_names = [] if settings.id_name is None else [settings.id_name]
        # A column may be chosen several times.
        read_names = [*settings.text_columns, *id_names, *settings.keep_columns]
        no_text = {settings.text_columns[0]: ""} if only_ids else {}
        names = dict.fromkeys(id_names if only_ids else read_names)
        rows = range(table.metadata.num_rows) if rows is None else rows
        n_read = n_told = 0
        for first, batch in _batches(table, list(names), rows):
            for number, row in enumerate(batch, first + 1):
                yield Entry(
                    number, *row_record({**no_text, **row}, settings, tokenizer)
                )
            n_read += len(batch)
            on_bytes(size * n_read // len(rows) - n_told)
            n_told = size * n_read // len(rows)


def parquet_size(
    file: Any, settings: TextSettings
) -> tuple[int, int, Any, dict[str, Any]]:
    """Return what the footer of an open file says.

    It is the number of rows, the bytes of the texts before compression, and the Arrow types of the
    ids, or None, and of the kept columns.
    """
    with _opened(file) as table:
        schema, footer = table.schema_arrow, table.metadata.to_dict()
    settings = _choose_fields(schema, settings)
    leaves = (leaf for group in footer["row_groups"] for leaf in group["columns"])
    # Leaves of a list are called `column.list.element`, and a column may have dots in its name.
    n_text_bytes = sum(
        leaf["total_uncompressed_size"]
        for leaf in leaves
        if f"{leaf['path_in_schema']}.".startswith(f"{settings.text_column}.")
    )
    types = _field_types(schema)
    kept_types = {name: types[name] for name in settings.keep_columns}
    id_type = None if settings.id_name is None else types[settings.id_name]
    return footer["num_rows"], n_text_bytes, id_type, kept_types


def _choose_fields(schema: Any, settings: TextSettings) -> TextSettings:
    from pyarrow.types import is_nested

    types = _field_types(schema)
    paths = [
        path for path in settings.paths if path in types and path not in schema.names
    ]
    has_lists = "tokens" in types and is_nested(types["tokens"])
    return choose_columns([*schema.names, *paths], settings, has_lists=has_lists)


def _field_types(fields: Iterable[Any], parent: str = "") -> dict[str, Any]:
    """Return the Arrow types of the columns of a schema, and of the fields of structs by paths."""
    from pyarrow.types import is_struct

    types = {parent + field.name: field.type for field in fields}
    for path, kind in list(types.items()):
        types = (_field_types(kind, f"{path}.") if is_struct(kind) else {}) | types
    return types


def _batches(
    file: Any, names: list[str], rows: range
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield some rows, of the row groups that have them, each batch with its first number."""
    groups = range(file.num_row_groups)
    ends = [0, *accumulate(file.metadata.row_group(group).num_rows for group in groups)]
    first, stop = bisect_right(ends, rows.start) - 1, bisect_left(ends, rows.stop)
    number = ends[first]
    for batch in file.iter_batches(1024, row_groups=range(first, stop), columns=names):
        start, end = (
            min(max(row - number, 0), len(batch)) for row in (rows.start, rows.stop)
        )
        if start < end:
            yield number + start, batch.slice(start, end - start).to_pylist()
        number += len(batch)


@contextmanager
def _opened(file: Any) -> Iterator[Any]:
    """Open a file with pyarrow. Its errors in the block become a `TableError`."""
    parquet = load_extra("Parquet", "pyarrow.parquet", "parquet")
    from pyarrow import ArrowException

    try:
        with parquet.ParquetFile(file, buffer_size=1 << 20) as table:
            yield table
    except (ArrowException, OSError) as error:
        raise TableError(f"cannot read the Parquet file: {first_line(error)}") from None


def column_types(source: Source) -> dict[str, Any]:
    """Return the Arrow types of the columns of a Parquet file, and of nested fields."""
    try:
        with _opened(source.open()) as table:
            return _field_types(table.schema_arrow)
    except TableError as error:
        raise InputError(f"{source.name}: {error}") from None
