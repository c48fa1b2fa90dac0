"""Parquet: the rows of a file, or of a stretch of it, and the size of its text."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError, first_line, load_extra
from elmo_cli.text.entries import DEFAULT_FIELDS, Entry, Fields, row_record
from elmo_cli.text.lines import size_in_bytes
from elmo_cli.text.tables import TableError, choose_columns
from elmo_cli.text.tokenizers import Tokenizer

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
