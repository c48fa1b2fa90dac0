"""Formats that cannot resume an interrupted run: JSON lines, npz, npy and Parquet."""

import json
import re
import zipfile
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat
from elmo_cli.text.entries import LINE
from elmo_cli.text.records import Record

Array = NDArray[Any]

RECORDS: Final = "records.jsonl"
"""Member of npz that describes its records, where white space does not separate their tokens."""
ROW_GROUP_BYTES: Final = 1 << 25
"""Bytes of activations that are buffered and written together to Parquet."""
_CHUNK_RECORDS: Final = 8
"""Number of records whose levels Parquet computes together. The levels of a whole row group would
be new memory each time, which the kernel fills with zeros."""
_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that a float of each size in bytes needs to be read back unchanged."""
_HEADER_BYTES: Final = 128
"""Size of the header of npy."""


class _StreamWriter(FormatWriter):
    def facts(self, number: int, record: Record) -> dict[str, Any]:
        """Return what the output stores of a record in addition to its activations."""
        facts: dict[str, Any] = {"number": number} if record.id is None else {"key": record.id}
        facts |= record.attributes
        if LINE in facts:
            facts[LINE] = int(facts[LINE])
        if not self._format.forget_sentences:
            facts["sentence"] = record.text
        if self.keeps_tokens:
            facts["tokens"] = record.tokens
        return facts


class JsonlWriter(_StreamWriter):
    """Writer of lines, flushed one by one: {"number": 0, "sentence": "a", "activations": ...}."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the line of a record."""
        start = json.dumps(self.facts(number, record), ensure_ascii=False)[:-1]
        line = f'{start}, "activations": {json_numbers(values)}}}\n'
        self._file.write(line.encode("utf-8", "surrogatepass"))
        self._file.flush()


def json_numbers(values: Array) -> str:
    """Return an array as nested lists of JSON, with null for infinity and NaN."""
    if values.ndim > 1:
        return "[" + ", ".join(json_numbers(part) for part in values) + "]"
    one = f"%.{_DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)


class NpzWriter(_StreamWriter):
    """Writer that adds arrays to a zip archive in the format of `numpy.savez`."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._archive = zipfile.ZipFile(file, "w")
        self._records: list[str] = []

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the array of a record."""
        if self.keeps_tokens:
            facts = json.dumps(self.facts(number, record), ensure_ascii=False)
            self._records.append(f"{facts}\n")
        write_array(self._archive, record.id or str(number), values)

    def finish(self, attributes: Attributes) -> None:
        """Write the descriptions of the records, and the directory of the archive."""
        if self._records:
            records = "".join(self._records).encode("utf-8", "surrogatepass")
            self._archive.writestr(zipfile.ZipInfo(RECORDS), records)
        self._archive.close()


def write_array(archive: zipfile.ZipFile, name: str, values: Array) -> None:
    """Add an array to a zip archive of `numpy.savez`."""
    # Equal runs write equal files: the member has no time.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


class NpyWriter(FormatWriter):
    """Writer that adds rows to one array, whose length is written at the end."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._n_rows, self._row_shape = 0, ()
        file.write(bytes(_HEADER_BYTES))

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record."""
        self._n_rows, self._row_shape = self._n_rows + 1, values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Attributes) -> None:
        """Write the header, which has the same length for any number of rows."""
        shape = (self._n_rows, *self._row_shape)
        descr = np.lib.format.dtype_to_descr(np.dtype(self._format.dtype))
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)


class ParquetWriter(_StreamWriter):
    """Writer of rows, one group at a time: number or id, sentence, activations as nested lists."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._held: list[tuple[dict[str, Any], Array]] = []
        self._n_bytes = 0
        self._writer: Any = None

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record."""
        self._held.append(({**self.facts(number, record), "number": number}, values))
        self._n_bytes += values.nbytes
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def finish(self, attributes: Attributes) -> None:
        """Write the buffered rows, and add these attributes to the run's."""
        if self._held or self._writer is None:
            self._write_held()
        metadata = {**self._attributes, **attributes}
        self._writer.add_key_value_metadata({"elmo": json.dumps(metadata)})
        self._writer.close()

    def _write_held(self) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {
            "number": pyarrow.int64(),
            "key": pyarrow.string(),
            "sentence": pyarrow.string(),
            LINE: pyarrow.int64(),
            "tokens": pyarrow.list_(pyarrow.string()),
        }
        facts = [facts for facts, _ in self._held]
        names = facts[0] if facts else ["number"]
        columns = {
            name: pyarrow.array([each.get(name) for each in facts], kind)
            for name, kind in kinds.items()
            if name in names
        }
        # Activations get no statistics: minimum and maximum of float16 take as long as compression.
        settings: dict[str, Any] = {"write_statistics": [*columns]}
        if self._held:
            block = [values for _, values in self._held]
            if self._format.compression is not None:
                leaf = "activations" + ".list.element" * block[0].ndim
                settings["compression"] = self._format.compression
                settings |= {"use_dictionary": [*columns], "use_byte_stream_split": [leaf]}
            columns["activations"] = pyarrow.chunked_array(
                nested_array(block[start : start + _CHUNK_RECORDS], pooled=self._format.pooled)
                for start in range(0, len(block), _CHUNK_RECORDS)
            )
        table = pyarrow.table(columns)
        if self._writer is None:
            schema = table.schema.with_metadata({"elmo": json.dumps(self._attributes)})
            self._writer = parquet.ParquetWriter(self._file, schema, **settings)
        self._writer.write_table(table)
        self._held, self._n_bytes = [], 0


def nested_array(block: Sequence[Array], *, pooled: bool) -> Any:
    """Return arrays as nested Arrow lists, of fixed length except for the axis of tokens."""
    import pyarrow

    nested = pyarrow.array(np.concatenate([values.reshape(-1) for values in block]))
    sizes = list(block[0].shape)
    token_axis = None if pooled else len(sizes) - 2
    for axis in reversed(range(len(sizes))):
        if axis != token_axis:
            nested = pyarrow.FixedSizeListArray.from_arrays(nested, sizes[axis])
            continue
        n_lists = sizes[0] if axis else 1  # one list of tokens per layer
        lengths = np.repeat([values.shape[axis] for values in block], n_lists)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pyarrow.ListArray.from_arrays(ends, nested)
    return nested
