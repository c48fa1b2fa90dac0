"""Writer for Parquet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_pyarrow
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.vector_rows import (
    INTEGERS,
    Array,
    Columns,
    RowWriter,
    SentenceRows,
    TokenRows,
    as_text,
)
from elmo_cli.records.record import Record

# bytes of rows that are buffered and written together to Parquet
ROW_GROUP_BYTES: Final = 1 << 25


class ParquetWriter(RowWriter):
    """Writer of groups of rows. The first ones fix the types that nothing else fixes."""

    def __init__(
        self,
        file: Any,
        output_format: OutputSettings,
        attributes: Attributes,
        rows_type: type[SentenceRows] | None = None,
    ) -> None:
        super().__init__(file, output_format, attributes, rows_type)
        self._parquet: Any = None
        # A column may have been renamed by `renamed_columns`, and always is if it is called id.
        types = output_format.column_types
        self._types = {
            **{f"input_{name}": kind for name, kind in types.items()},
            **types,
        }
        self._types.pop("id", None)
        # Rows that are not written yet. Without any record, sentences still have a column.
        self._own: Columns = {} if isinstance(self.rows, TokenRows) else {"index": []}
        self._kept: Columns = {}
        self._vectors: Columns = {}
        self._n_held = self._n_bytes = 0
        self._example: tuple[Record, Array] | None = None

    def describe(self, example: Record, values: Array) -> None:
        """Give a file without rows the columns and types of an example."""
        self._example = example, values

    def fix_columns(self, types: Mapping[str, Any]) -> None:
        """Write these ids and kept columns with these types, also where no record has them."""
        self._types |= types
        self._own |= {"id": []} if "id" in types else {}
        self._kept |= {name: [] for name in types if name != "id"}

    def write(self, number: int, record: Record, values: Array) -> None:
        """Collect the rows of a record, and write a group of rows when it is large enough."""
        rows = self.rows.of(number, record, values.copy())  # It may share memory.
        for name in rows.kept:
            if self._parquet is not None and name not in self._parquet.schema.names:
                raise InputError(
                    f"column {name!r}: record {number + 1:,} has it, but none of the first "
                    "records. Name the columns with --keep-columns, or write JSON lines (.jsonl)."
                )
        for held, new in ((self._own, rows.own), (self._kept, rows.kept)):
            for name in {**held, **new}:
                column = held.setdefault(name, [None] * self._n_held)
                column.extend(new.get(name, [None] * rows.n))
        for name, vectors in rows.vectors.items():
            self._vectors.setdefault(name, []).append(vectors)
        self._n_held += rows.n
        self._n_bytes += rows.n_bytes
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def finish(self, attributes: Attributes) -> None:
        """Write the last rows, and add these attributes."""
        if self._parquet is None and not self._n_held and self._example is not None:
            self.write(0, *self._example)
            self._write_held(0)
        if self._n_held or self._parquet is None:
            self._write_held()
        metadata = {**self._attributes, **attributes}
        self._parquet.add_key_value_metadata({"elmo": json.dumps(metadata)})
        self._parquet.close()

    def close(self) -> None:
        """Close the file of pyarrow, which would otherwise write to ours when it is collected."""
        if self._parquet is not None:
            self._parquet.close()

    def _write_held(self, n_rows: int | None = None) -> None:
        """Write the rows that are held, or only the first `n_rows`."""
        from pyarrow import parquet

        columns = {
            name: self._own_column(name, held) for name, held in self._own.items()
        }
        columns |= {
            name: self._kept_column(name, held) for name, held in self._kept.items()
        }
        settings = self.rows.parquet_settings([*columns], self._vectors)
        columns |= {
            name: self.rows.nested(held) for name, held in self._vectors.items()
        }
        table = load_pyarrow().table(columns)
        if self._parquet is None:
            schema = table.schema.with_metadata(
                {"elmo": json.dumps(dict(self._attributes))}
            )
            self._parquet = parquet.ParquetWriter(self._file, schema, **settings)
        self._parquet.write_table(table.slice(0, n_rows))
        for held in (
            *self._own.values(),
            *self._kept.values(),
            *self._vectors.values(),
        ):
            held.clear()
        self._n_held = self._n_bytes = 0

    def _own_column(self, name: str, values: list[Any]) -> Any:
        if name == "id":
            return self._kept_column(name, values)
        pyarrow = load_pyarrow()
        if name == "tokens":
            return pyarrow.array(values, pyarrow.list_(pyarrow.string()))
        return pyarrow.array(
            values, pyarrow.int64() if name in INTEGERS else pyarrow.string()
        )

    def _kept_column(self, name: str, values: list[Any]) -> Any:
        """Convert a column. Values of several types in the first rows become texts."""
        pyarrow = load_pyarrow()
        if name not in self._types:
            found = type_of(values)
            self._types[name] = (
                pyarrow.string() if pyarrow.types.is_null(found) else found
            )
        column_type = self._types[name]
        if pyarrow.types.is_string(column_type):
            values = list(map(as_text, values))
        column = _arrow_array(values, column_type)
        if column is None:
            wrong = next(
                value for value in values if _arrow_array([value], column_type) is None
            )
            raise InputError(
                f"column {name!r}: expected {column_type}, as in the first rows, found "
                f"{str(wrong)[:60]!r}. Write JSON lines (.jsonl), or give the column one type."
            )
        return column


def type_of(values: Sequence[object]) -> Any:
    """Return the type of values: text if they have several types, null if all are None."""
    array = _arrow_array(values)
    return load_pyarrow().string() if array is None else array.type


def _arrow_array(values: Sequence[object], kind: Any = None) -> Any:
    """Return values as an array of Arrow; None if its type cannot hold all of them."""
    pyarrow = load_pyarrow()
    try:
        return pyarrow.array(values, kind)
    except (pyarrow.ArrowException, OverflowError):
        return None
