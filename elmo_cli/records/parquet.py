"""Parquet: a table whose columns have types, read in batches of rows."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.missing_files import empty_file_error, is_empty_file
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.files.parquet_files import unreadable_reason
from elmo_cli.options.text import TEXT_COLUMN, TextSettings
from elmo_cli.records.annotated_places import PLACE_COLUMNS
from elmo_cli.records.columns import Columns, choose_columns, named_columns
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.input_rows import InputRow, record_of_row
from elmo_cli.records.merged_texts import SAMPLE_ROWS
from elmo_cli.records.record import Record
from elmo_cli.text.sources import Source

_BATCH_ROWS: Final = 1024
_BUFFER_BYTES: Final = 1 << 20
_BEGINNING: Final = "PAR1\x15"
"""Name of the format, and the first byte of the header of a page."""


class ParquetFooter(NamedTuple):
    """What the footer of a Parquet file says."""

    n_rows: int
    n_text_bytes: int
    """Bytes of the texts before compression."""
    id_type: Any
    """Arrow type of the ids; None if there are none."""
    kept_types: dict[str, Any]
    """Arrow types of the kept columns."""


class Parquet(InputFormat):
    """Table with a schema. It is a file, because its footer is read first."""

    name = "parquet"
    unit = "row"
    suffixes = (".parquet", ".pq")
    number_unit = "row"
    tokens_are_stored = True
    has_columns = True
    lists_columns = True
    is_binary = True
    has_parts = True

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether the file begins like Parquet."""
        return lines[0].startswith(_BEGINNING)

    def read(
        self,
        text_input: TextInput,
        on_bytes: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> tuple[Iterator[Record], Callable[[], bool]]:
        """Return the records of a file, each of which is ready."""
        source = text_input.source
        if not source.is_file:
            source.check()
            problem = f"{self.name} needs a file, not a stream"
            raise InputError(text_input.error(problem))
        size = source.size or 0
        records = self.parse_file(
            source.open(), text_input, size=size, on_bytes=on_bytes
        )
        return records, lambda: True

    def parse_file(
        self,
        file: Any,
        text_input: TextInput,
        *,
        rows: range | None = None,
        size: int = 0,
        on_bytes: Callable[[int], object] = ignore,
    ) -> Iterator[Record]:
        """Yield the records of an open file, or of a range of rows, from 0.

        After each batch, `on_bytes` is called with its share of the size of the file.
        """
        with _open_table(file, text_input.source.name) as table:
            columns = _choose_columns_in_schema(table.schema_arrow, text_input)
            # A column may be chosen several times.
            names = [*columns.texts, *columns.kept, *columns.ids]
            schema = table.schema_arrow
            if text_input.reads_places:
                place_names = [*PLACE_COLUMNS, TEXT_COLUMN]
                names += [name for name in place_names if name in schema.names]
            names = list(dict.fromkeys(names))
            if rows is None:
                rows = range(table.metadata.num_rows)
            if text_input.settings.word_column is None:
                batches = _batches(table, names, rows)
            else:
                # `note_merged` looks at the other columns of the first rows.
                flat = [field.name for field in schema if not field.type.num_fields]
                all_names = list(dict.fromkeys([*names, *flat]))
                batches = chain(
                    _batches(table, all_names, rows[:SAMPLE_ROWS]),
                    _batches(table, names, rows[SAMPLE_ROWS:]),
                )
            n_read = 0
            n_reported = 0
            for first, batch in batches:
                for start, fields in enumerate(batch, start=first + 1):
                    yield record_of_row(InputRow(start, fields), columns, text_input)
                n_read += len(batch)
                n_bytes = size * n_read // len(rows)
                on_bytes(n_bytes - n_reported)
                n_reported = n_bytes

    def read_ids(
        self, text_input: TextInput, should_stop: Callable[[], bool]
    ) -> Iterator[Record]:
        """Yield records without texts, of which only the column of ids is read."""
        with _open_table(text_input.source.open(), text_input.source.name) as table:
            columns = _choose_columns_in_schema(table.schema_arrow, text_input)
            names = list(columns.ids)
            text_name = columns.texts[0]
            rows = range(table.metadata.num_rows)
            for first, batch in _batches(table, names, rows):
                for start, fields in enumerate(batch, start=first + 1):
                    row = InputRow(start, {text_name: "", **fields})
                    yield record_of_row(row, columns, text_input)

    def read_footer(self, file: Any, text_input: TextInput) -> ParquetFooter:
        """Return what the footer of an open file says about the chosen columns."""
        with _open_table(file, text_input.source.name) as table:
            schema = table.schema_arrow
            footer = table.metadata.to_dict()
        columns = _choose_columns_in_schema(schema, text_input)
        text_prefix = f"{columns.texts[0]}."
        n_text_bytes = 0
        for group in footer["row_groups"]:
            for leaf in group["columns"]:
                # Leaves of a list are called `column.list.element`, and a column may
                # have dots in its name.
                if f"{leaf['path_in_schema']}.".startswith(text_prefix):
                    n_text_bytes += leaf["total_uncompressed_size"]
        types = _field_types(schema)
        return ParquetFooter(
            n_rows=footer["num_rows"],
            n_text_bytes=n_text_bytes,
            id_type=_id_type(columns, types),
            kept_types={name: types[name] for name in columns.kept},
        )

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the columns of the schema, and its nested fields."""
        return list(self.column_types(source))

    def column_types(self, source: Source) -> dict[str, Any]:
        """Return the Arrow types of the columns, and of nested fields by paths."""
        with _open_table(source.open(), source.name) as table:
            return _field_types(table.schema_arrow)


def _choose_columns_in_schema(schema: Any, text_input: TextInput) -> Columns:
    """Return the columns that are read, some of which may be nested fields."""
    from pyarrow.types import is_nested

    types = _field_types(schema)
    columns = named_columns(text_input.settings, text_input.text_option)
    names = list(schema.names)
    for path in columns.paths:
        if path in types and path not in names:
            names.append(path)
    has_lists = "tokens" in types and is_nested(types["tokens"])
    return choose_columns(
        columns, names, table=text_input.source.name, has_lists=has_lists
    )


def _id_type(columns: Columns, types: Mapping[str, Any]) -> Any:
    """Return the Arrow type of the ids, which are texts if they are joined."""
    from pyarrow import string

    if not columns.ids:
        return None
    if len(columns.ids) > 1:
        return string()
    return types[columns.ids[0]]


def _field_types(fields: Iterable[Any], parent: str = "") -> dict[str, Any]:
    """Return the Arrow types of columns, and of the fields of structs by paths."""
    from pyarrow.types import is_struct

    types: dict[str, Any] = {}
    for field in fields:
        types[parent + field.name] = field.type
    for path, kind in list(types.items()):
        if is_struct(kind):
            # A column with the name of a path comes before the nested field.
            types = _field_types(kind, f"{path}.") | types
    return types


def _batches(
    file: Any, names: list[str], rows: range
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield a range of rows in batches, each with the number of its first row.

    Only the row groups that have such rows are read.
    """
    if not rows:
        return
    groups = range(file.num_row_groups)
    n_rows_of_groups = (file.metadata.row_group(group).num_rows for group in groups)
    # First row of each row group, and the end of the last one
    bounds = [0, *accumulate(n_rows_of_groups)]
    first_group = bisect_right(bounds, rows.start) - 1
    stop_group = bisect_left(bounds, rows.stop)
    number = bounds[first_group]  # of the first row of a batch
    for batch in file.iter_batches(
        _BATCH_ROWS, row_groups=range(first_group, stop_group), columns=names
    ):
        # Part of the batch that is in the range
        start = max(rows.start - number, 0)
        stop = min(rows.stop - number, len(batch))
        if start < stop:
            yield number + start, batch.slice(start, stop - start).to_pylist()
        number += len(batch)
        if number >= rows.stop:
            return


@contextmanager
def _open_table(file: Any, name: str) -> Iterator[Any]:
    """Open a file with pyarrow. Its errors in the block become an `InputError`."""
    parquet = load_extra("Parquet", "pyarrow.parquet", "parquet")
    from pyarrow import ArrowException

    if is_empty_file(name):
        raise empty_file_error(name, InputError)
    try:
        with parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES) as table:
            yield table
    except (ArrowException, OSError) as error:
        message = Message(
            "{name}: cannot read the Parquet file: {reason}",
            remedy="Copy it again, or run the command that wrote it.",
            name=name,
            reason=unreadable_reason(error),
        )
        raise InputError(message) from None
