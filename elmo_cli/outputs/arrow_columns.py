"""Columns of Parquet that are no activations: values of Python to Arrow, and the file itself."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import Attributes

INTEGERS: Final = ("index", "line", "sentence_number", "position")
"""Columns of numbers that outputs have themselves."""


class ArrowColumns:
    """Converter of columns to Arrow. The first rows fix the types that nothing else fixes."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        """Convert columns, some of whose types are known."""
        # A column may have been renamed by `renamed_columns`, and always is if it is called id.
        self.types = {**{f"input_{name}": kind for name, kind in types.items()}, **types}
        self.types.pop("id", None)

    def own_column(self, name: str, values: Sequence[object]) -> Any:
        """Convert a column of the output itself."""
        import pyarrow

        if name == "id":
            return self.kept_column(name, values)
        if name == "tokens":
            return pyarrow.array(values, pyarrow.list_(pyarrow.string()))
        return pyarrow.array(values, pyarrow.int64() if name in INTEGERS else pyarrow.string())

    def kept_column(self, name: str, values: Sequence[object]) -> Any:
        """Convert a column that is kept from the input.

        Values of several types in the first rows, such as a number and a text, become texts.

        Raises:
            InputError: A later value has another type than the first rows.
        """
        import pyarrow

        if name not in self.types:
            column_type = type_of(values)
            self.types[name] = (
                pyarrow.string() if pyarrow.types.is_null(column_type) else column_type
            )
        column_type = self.types[name]
        if pyarrow.types.is_string(column_type):
            values = list(map(_as_text, values))
        try:
            return pyarrow.array(values, column_type)
        except (pyarrow.ArrowException, OverflowError):
            wrong = next(value for value in values if not _fits(value, column_type))
            raise InputError(
                f"column {name!r}: expected {column_type}, as in the first rows, found "
                f"{str(wrong)[:60]!r}. Write JSON lines (.jsonl), or give the column one type."
            ) from None


def type_of(values: Sequence[object]) -> Any:
    """Return the type of values: text if they have several types, null if all are None."""
    import pyarrow

    try:
        return pyarrow.array(values).type
    except (pyarrow.ArrowException, OverflowError):
        return pyarrow.string()


def _fits(value: object, kind: Any) -> bool:
    import pyarrow

    try:
        pyarrow.array([value], kind)
    except (pyarrow.ArrowException, OverflowError):
        return False
    return True


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def check_kept(names: Iterable[str], columns: Collection[str], number: int) -> None:
    """Raise an `InputError` if a later record has a column that the first rows do not have.

    Args:
        names: Kept columns of a record.
        columns: Columns of the file; none before the first rows are written.
        number: Number of the record, from 0.
    """
    for name in names:
        if columns and name not in columns:
            raise InputError(
                f"column {name!r}: record {number + 1:,} has it, but none of the first records. "
                "Name the columns with --keep-columns, or write JSON lines (.jsonl)."
            )


class ParquetTable:
    """Parquet file to which rows are added in groups."""

    def __init__(self, file: Any, attributes: Attributes) -> None:
        """Write to an open file; `attributes` record how it was made."""
        self._file, self._attributes = file, attributes
        self._writer: Any = None

    @property
    def names(self) -> list[str]:
        """Names of the columns; none before the first rows are added."""
        return [] if self._writer is None else list(self._writer.schema.names)

    def add(self, columns: Mapping[str, Any], **settings: Any) -> None:
        """Add a group of rows, given by its columns.

        Args:
            columns: Arrays of Arrow by their names.
            settings: Settings of `pyarrow.parquet.ParquetWriter`, for the first group.
        """
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table(dict(columns))
        if self._writer is None:
            schema = table.schema.with_metadata({"elmo": json.dumps(dict(self._attributes))})
            self._writer = parquet.ParquetWriter(self._file, schema, **settings)
        self._writer.write_table(table)

    def finish(self, attributes: Attributes) -> None:
        """Complete the file with these attributes in addition to those that it has."""
        metadata = {**self._attributes, **attributes}
        self._writer.add_key_value_metadata({"elmo": json.dumps(metadata)})
        self._writer.close()
