"""Parquet, a row a record: its number or key, sentence, and activations as nested lists."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import FormatWriter, OutputFormat
from elmo_cli.text.lines import Record
from elmo_cli.text.records import LINE

ROW_GROUP_BYTES: Final = 1 << 25
"""Values that are held and written together."""


class ParquetWriter(FormatWriter):
    """Adds records to an open file, a group of rows at a time."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._held: list[tuple[dict[str, Any], NDArray[Any]]] = []
        self._n_bytes = 0
        self._writer: Any = None

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the row of a record."""
        self._held.append(({**self._facts(number, record), "number": number}, values))
        self._n_bytes += values.nbytes
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write what is held, and these attributes beside those of the run."""
        if self._held:
            self._write_held()
        if self._writer is None:
            import pyarrow

            self._open_writer(pyarrow.schema([("number", pyarrow.int64())]))
        metadata = {**self._attributes, **attributes}
        self._writer.add_key_value_metadata({"elmo": json.dumps(metadata)})
        self._writer.close()

    def _open_writer(self, schema: Any) -> None:
        from pyarrow import parquet

        settings: dict[str, Any] = {}
        if self._form.compression is not None and "activations" in schema.names:
            texts = [name for name in schema.names if name != "activations"]
            leaf = "activations" + ".list.element" * _depth(schema.field("activations").type)
            settings["compression"] = self._form.compression
            settings |= {"use_dictionary": texts, "use_byte_stream_split": [leaf]}
        self._writer = parquet.ParquetWriter(self._file, schema, **settings)

    def _write_held(self) -> None:
        import pyarrow

        kinds = {
            "number": pyarrow.int64(),
            "key": pyarrow.string(),
            "sentence": pyarrow.string(),
            LINE: pyarrow.int64(),
            "tokens": pyarrow.list_(pyarrow.string()),
        }
        facts, values = zip(*self._held, strict=True)
        columns = {
            name: pyarrow.array([each.get(name) for each in facts], kind)
            for name, kind in kinds.items()
            if name in facts[0]
        }
        columns["activations"] = nested_array(values, pooled=self._form.pooled)
        table = pyarrow.table(columns)
        if self._writer is None:
            self._open_writer(table.schema)
        self._writer.write_table(table)
        self._held, self._n_bytes = [], 0


def _depth(kind: Any) -> int:
    """How many lists a type of Arrow has, one in the other."""
    return 1 + _depth(kind.value_type) if hasattr(kind, "value_type") else 0


def nested_array(block: Sequence[NDArray[Any]], *, pooled: bool) -> Any:
    """Arrays as nested lists of Arrow: of fixed length, but for the axis of tokens."""
    import pyarrow

    nested = pyarrow.array(np.concatenate([values.reshape(-1) for values in block]))
    sizes = list(block[0].shape)
    token_axis = None if pooled else len(sizes) - 2
    for axis in reversed(range(len(sizes))):
        if axis != token_axis:
            nested = pyarrow.FixedSizeListArray.from_arrays(nested, sizes[axis])
            continue
        n_lists = sizes[0] if axis else 1  # a list of tokens for each layer
        lengths = np.repeat([values.shape[axis] for values in block], n_lists)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pyarrow.ListArray.from_arrays(ends, nested)
    return nested
