"""Writer for Parquet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_pyarrow
from elmo_cli.files.json_form import json_text
from elmo_cli.files.parquet_files import FOOTER_CRC32, NO_CRC32, SealedFile
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.output_rows import INTEGERS, ColumnValues
from elmo_cli.outputs.row_writer import RowWriter
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.outputs.token_rows import TokenRows
from elmo_cli.records.record import Record

ROW_GROUP_BYTES: Final = 1 << 25
"""Number of bytes of rows that are held and written together."""


class ParquetWriter(RowWriter):
    """Writer of groups of rows. The first rows fix types that are not given."""

    def __init__(
        self,
        file: Any,
        settings: OutputSettings,
        attributes: Attributes,
        rows_type: type[SentenceRows] | None = None,
    ) -> None:
        super().__init__(file, settings, attributes, rows_type)
        self._sealed = SealedFile(file)
        self._parquet: Any = None
        self._types = _kept_types(settings.column_types)
        # Rows that are not written yet. Without any record, sentences still have a
        # column.
        self._own: ColumnValues = (
            {} if isinstance(self.rows, TokenRows) else {"index": []}
        )
        self._kept: ColumnValues = {}
        self._vectors: ColumnValues = {}
        self._n_held = 0
        self._n_bytes = 0
        self._example: tuple[Record, AnyArray] | None = None

    def describe(self, example: Record, values: AnyArray) -> None:
        """Give a file without rows the columns and types of an example."""
        self._example = example, values

    def fix_columns(self, types: Mapping[str, Any]) -> None:
        """Write ids and kept columns with these types, even if no record has them."""
        self._types |= types
        for name in types:
            if name == "id":
                self._own[name] = []
            else:
                self._kept[name] = []

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Hold the rows of a record, and write a group of rows that is large enough."""
        rows = self.rows.of(index, record, values.copy())  # It may share memory.
        self._check_columns(rows.kept, index)
        self._hold(self._own, rows.own, rows.n)
        self._hold(self._kept, rows.kept, rows.n)
        for name, vectors in rows.vectors.items():
            self._vectors.setdefault(name, []).append(vectors)
        self._n_held += rows.n
        self._n_bytes += rows.n_bytes
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def finish(self, attributes: Attributes) -> None:
        """Write the last rows, and add these attributes."""
        if self._parquet is None and not self._n_held and self._example is not None:
            record, values = self._example
            self.write(0, record, values)
            self._write_held(0)
        if self._n_held or self._parquet is None:
            self._write_held()
        metadata = {**self._attributes, **attributes}
        self._parquet.add_key_value_metadata(
            {"elmo": json.dumps(metadata), FOOTER_CRC32: NO_CRC32}
        )
        self._sealed.begin_footer()
        self._parquet.close()
        self._sealed.write_footer()

    def close(self) -> None:
        """Close the file of pyarrow, which would else write to ours when collected."""
        if self._parquet is not None:
            self._parquet.close()

    def _check_columns(self, kept: ColumnValues, index: int) -> None:
        """Raise an `InputError` for a column that the first rows did not have."""
        for name in kept:
            if self._parquet is not None and name not in self._parquet.schema.names:
                raise InputError(
                    f"column {name!r}: record {index + 1:,} has it, but none of the "
                    "first records",
                    remedy="Name the columns with {--keep-columns}, or write JSON "
                    "lines (.jsonl).",
                )

    def _hold(self, held: ColumnValues, new: ColumnValues, n_rows: int) -> None:
        """Add the values of rows to columns; None where either has no such column."""
        for name in {**held, **new}:
            column = held.setdefault(name, [None] * self._n_held)
            column.extend(new.get(name, [None] * n_rows))

    def _write_held(self, n_rows: int | None = None) -> None:
        """Write the rows that are held, or only the first `n_rows`."""
        from pyarrow import parquet

        columns: dict[str, Any] = {}
        for name, values in self._own.items():
            columns[name] = self._own_column(name, values)
        for name, values in self._kept.items():
            columns[name] = self._kept_column(name, values)
        arguments = self.rows.parquet_arguments(list(columns), self._vectors)
        for name, vectors in self._vectors.items():
            columns[name] = self.rows.nested(vectors)
        table = load_pyarrow().table(columns)
        if self._parquet is None:
            metadata = {"elmo": json.dumps(dict(self._attributes))}
            schema = table.schema.with_metadata(metadata)
            self._parquet = parquet.ParquetWriter(
                self._sealed, schema, write_page_checksum=True, **arguments
            )
        self._parquet.write_table(table.slice(0, n_rows))
        for held in (self._own, self._kept, self._vectors):
            for values in held.values():
                values.clear()
        self._n_held = 0
        self._n_bytes = 0

    def _own_column(self, name: str, values: list[Any]) -> Any:
        if name == "id":
            return self._kept_column(name, values)
        pyarrow = load_pyarrow()
        if name == "tokens":
            return pyarrow.array(values, pyarrow.list_(pyarrow.string()))
        kind = pyarrow.int64() if name in INTEGERS else pyarrow.string()
        return pyarrow.array(values, kind)

    def _kept_column(self, name: str, values: list[Any]) -> Any:
        """Convert a column. Values of several types in the first rows become texts."""
        pyarrow = load_pyarrow()
        if name not in self._types:
            found = type_of(values)
            is_unknown = pyarrow.types.is_null(found)
            self._types[name] = pyarrow.string() if is_unknown else found
        column_type = self._types[name]
        if pyarrow.types.is_string(column_type):
            values = [_text_or_json(value) for value in values]
        column = _arrow_array(values, column_type)
        if column is not None:
            return column
        for value in values:
            if _arrow_array([value], column_type) is None:
                raise InputError(
                    f"column {name!r}: expected {column_type}, as in the first rows, "
                    f"found {str(value)[:60]!r}",
                    remedy="Write JSON lines (.jsonl), or give the column one type.",
                )
        raise AssertionError(f"{name}: each value has the type, and all have not")


def type_of(values: Sequence[object]) -> Any:
    """Return the type of values, null if all are None.

    It is text for several types, and for objects without fields, which Parquet lacks.
    """
    array = _arrow_array(values)
    if array is None or _has_empty_object(array.type):
        return load_pyarrow().string()
    return array.type


def _has_empty_object(kind: Any) -> bool:
    """Return whether a type is an object without fields, or contains one."""
    types = load_pyarrow().types
    if types.is_list(kind):
        return _has_empty_object(kind.value_type)
    if not types.is_struct(kind):
        return False
    fields = [kind[index].type for index in range(kind.num_fields)]
    return not fields or any(_has_empty_object(field) for field in fields)


def _kept_types(types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of kept columns by their names in the output.

    `renamed_columns` may have renamed a column, and always has one that is called id.
    """
    by_name = {f"input_{name}": kind for name, kind in types.items()}
    by_name.update(types)
    by_name.pop("id", None)
    return by_name


def _text_or_json(value: object) -> str | None:
    """Return a value as text: JSON, unless it is text or missing."""
    return value if value is None or isinstance(value, str) else json_text(value)


def _arrow_array(values: Sequence[object], kind: Any = None) -> Any:
    """Return values as an array of Arrow; None if its type cannot hold all of them."""
    pyarrow = load_pyarrow()
    try:
        return pyarrow.array(values, kind)
    except (pyarrow.ArrowException, OverflowError):
        return None
