"""Types of the ids and the kept columns of a distributed run.

Each column has one type in all parts, which is found while the inputs are split.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from elmo_cli.outputs.parquet_writer import type_of
from elmo_cli.outputs.sentence_rows import kept_names
from elmo_cli.records.record import Record

BATCH_ROWS: Final = 1024
"""Number of records whose types are found together."""


class ColumnTypes:
    """Types of columns by their names in the output.

    A column with several types of values becomes text.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._batch: list[tuple[str | int | None, Mapping[str, object]]] = []
        self.first_with_ids: str | None = None
        """First input whose records have ids."""
        self.first_without_ids: str | None = None

    def add(self, record: Record) -> None:
        """Add the id and the columns of a record."""
        self._batch.append((record.id_value, record.columns))
        if len(self._batch) == BATCH_ROWS:
            self._merge_batch()

    def add_input(self, path: str, *, has_ids: bool) -> None:
        """Note whether the records of an input have ids."""
        if has_ids:
            self.first_with_ids = self.first_with_ids or path
        else:
            self.first_without_ids = self.first_without_ids or path

    def add_schema(self, id_type: Any, kept_types: Mapping[str, Any]) -> None:
        """Add the types of the kept columns of Parquet, and of its ids, if any."""
        if id_type is not None:
            self._merge("id", _type_of_ids(id_type))
        for old_name, name in kept_names(kept_types.keys()).items():
            self._merge(name, kept_types[old_name])

    def merged(self) -> dict[str, Any]:
        """Return the types so far; columns without a value are texts."""
        import pyarrow

        self._merge_batch()
        for name, column_type in self._types.items():
            if pyarrow.types.is_null(column_type):
                self._types[name] = pyarrow.string()
        return dict(self._types)

    def _merge_batch(self) -> None:
        ids = [each for each, _ in self._batch if each is not None]
        if ids:
            self._merge("id", type_of(ids))
        rows = [row for _, row in self._batch]
        names = kept_names(dict.fromkeys(chain.from_iterable(rows)))
        for old_name, name in names.items():
            self._merge(name, type_of([row.get(old_name) for row in rows]))
        self._batch.clear()

    def _merge(self, name: str, column_type: Any) -> None:
        if name in self._types:
            column_type = _common_type(self._types[name], column_type)
        self._types[name] = column_type


def _type_of_ids(id_type: Any) -> Any:
    """Return the type of ids from a Parquet column: an integer of 64 bits, or text."""
    import pyarrow

    if pyarrow.types.is_dictionary(id_type):
        id_type = id_type.value_type
    # Float ids become integers: see `record_of_row`.
    if not (pyarrow.types.is_integer(id_type) or pyarrow.types.is_floating(id_type)):
        return pyarrow.string()
    return id_type if pyarrow.types.is_uint64(id_type) else pyarrow.int64()


def _common_type(first: Any, second: Any) -> Any:
    """Return a type that holds the values of both types, or else text."""
    import pyarrow

    # pyarrow only unifies types as columns of schemas.
    schemas = [pyarrow.schema({"": first}), pyarrow.schema({"": second})]
    try:
        unified = pyarrow.unify_schemas(schemas, promote_options="permissive")
        return unified.field(0).type
    except pyarrow.ArrowException:
        return pyarrow.string()
