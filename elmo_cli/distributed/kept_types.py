"""Types of the columns that are kept from the inputs: one type per column, for all parts."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from elmo_cli.outputs.arrow_columns import type_of

_BATCH_ROWS: Final = 1024


class KeptTypes:
    """Types of columns, from the schema of Parquet or from the values of rows.

    A column with values of several types gets texts, as in `ArrowColumns.kept`.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._rows: list[Mapping[str, object]] = []

    def add(self, row: Mapping[str, object]) -> None:
        """Add the values of a row."""
        if row:
            self._rows.append(row)
        if len(self._rows) == _BATCH_ROWS:
            self._merge_rows()

    def merge(self, types: Mapping[str, Any]) -> None:
        """Add the types of columns."""
        for name, found in types.items():
            self._types[name] = _common_type(self._types.get(name, found), found)

    def encode(self) -> str:
        """Return the types as a text; it is empty without columns."""
        import pyarrow

        self._merge_rows()
        if not self._types:
            return ""
        is_null = pyarrow.types.is_null
        types = {
            name: pyarrow.string() if is_null(found) else found
            for name, found in self._types.items()
        }
        return base64.b64encode(pyarrow.schema(types).serialize()).decode()

    def _merge_rows(self) -> None:
        names = dict.fromkeys(name for row in self._rows for name in row)
        self.merge({name: type_of([row.get(name) for row in self._rows]) for name in names})
        self._rows = []


def decode_types(text: str) -> dict[str, Any]:
    """Return the types by their columns; see `KeptTypes.encode`."""
    import pyarrow

    if not text:
        return {}
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(text)))
    return dict(zip(schema.names, schema.types, strict=True))


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
