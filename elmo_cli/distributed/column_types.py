"""Types of the ids and kept columns of a folder: one type per column, in all parts."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from elmo_cli.outputs.arrow_columns import type_of
from elmo_cli.outputs.streams import kept_names
from elmo_cli.text.records import Record, id_value

_BATCH_ROWS: Final = 1024


class ColumnTypes:
    """Types of columns by their names in the output, from the inputs as far as they are read.

    A column with values of several types gets texts, as in `ArrowColumns.kept_column`.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._ids: list[str] = []
        self._rows: list[Mapping[str, object]] = []

    def add(self, record: Record) -> None:
        """Add the id and the columns of a record."""
        if record.id is not None:
            self._ids.append(record.id)
        if record.columns:
            self._rows.append(record.columns)
        if _BATCH_ROWS in (len(self._ids), len(self._rows)):
            self._merge_batch()

    def add_schema(self, id_type: Any, kept_types: Mapping[str, Any]) -> None:
        """Add the types of the ids, if there are any, and of the kept columns of Parquet."""
        self._merge({} if id_type is None else {"id": _type_of_ids(id_type)})
        self._merge({new: kept_types[old] for old, new in kept_names(kept_types.keys()).items()})

    def encode(self) -> str:
        """Return the types as a text, which is empty without columns."""
        import pyarrow

        self._merge_batch()
        if not self._types:
            return ""
        types = {
            name: pyarrow.string() if pyarrow.types.is_null(column_type) else column_type
            for name, column_type in self._types.items()
        }
        return base64.b64encode(pyarrow.schema(types).serialize()).decode()

    def _merge_batch(self) -> None:
        if self._ids:
            self._merge({"id": type_of(list(map(id_value, self._ids)))})
        names = kept_names(dict.fromkeys(name for row in self._rows for name in row))
        types = {new: type_of([row.get(old) for row in self._rows]) for old, new in names.items()}
        self._merge(types)
        self._ids, self._rows = [], []

    def _merge(self, types: Mapping[str, Any]) -> None:
        for name, column_type in types.items():
            self._types[name] = _common_type(self._types.get(name, column_type), column_type)


def decode_types(text: str) -> dict[str, Any]:
    """Return the types by their columns; see `ColumnTypes.encode`."""
    import pyarrow

    if not text:
        return {}
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(text)))
    return dict(zip(schema.names, schema.types, strict=True))


def _type_of_ids(id_type: Any) -> Any:
    """Return the type of ids from a column of Parquet: an integer of 64 bits, or text."""
    import pyarrow

    id_type = id_type.value_type if pyarrow.types.is_dictionary(id_type) else id_type
    if not pyarrow.types.is_integer(id_type):
        return pyarrow.string()
    return id_type if pyarrow.types.is_uint64(id_type) else pyarrow.int64()


def _common_type(first: Any, second: Any) -> Any:
    """Return the type for the values of two types."""
    import pyarrow

    if first == second:
        return first
    schemas = [pyarrow.schema({"": each}) for each in (first, second)]
    try:
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowException:
        return pyarrow.string()
