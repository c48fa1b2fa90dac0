"""Parquet: a table whose columns have types, read in batches of rows."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import TableError, choose_columns, row_record
from elmo_cli.records.record import Entry
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer


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
