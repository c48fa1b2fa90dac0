"""Formats that cannot resume an interrupted run: JSON lines, npz, npy and Parquet."""

import json
import re
import zipfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import write_lines
from elmo_cli.errors import InputError
from elmo_cli.outputs.arrow_columns import ArrowColumns, ParquetTable, check_kept
from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat
from elmo_cli.text.entries import LINE, ORIGINAL_ID
from elmo_cli.text.records import Record, id_value, renamed_columns

Array = NDArray[Any]

RECORDS: Final = "records.jsonl"
"""Member of npz that describes its records, where white space does not separate their tokens."""
ROW_GROUP_BYTES: Final = 1 << 25
"""Bytes of rows that are buffered and written together to Parquet."""
_ROW_BYTES: Final = 1000
_TOKEN_BYTES: Final = 60
"""Bytes of a record and of a token in memory in addition to the activations, about."""
_CHUNK_RECORDS: Final = 8
"""Number of records whose levels Parquet computes together. The levels of a whole row group would
be new memory each time, which the kernel fills with zeros."""
_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that a float of each size in bytes needs to be read back unchanged."""
_PARQUET_COLUMNS: Final = ("index", "id", "sentence", LINE, "tokens")
_OWN_COLUMNS: Final = (*_PARQUET_COLUMNS, ORIGINAL_ID, "activations")
IDS_SUFFIX: Final = ".ids.txt"
"""Suffix of the file of ids, after the name of an output in npy."""
_HEADER_BYTES: Final = 128
"""Size of the header of npy."""


class _StreamWriter(FormatWriter):
    def fields(self, number: int, record: Record) -> dict[str, Any]:
        """Return the fields of a record that the output stores next to its activations.

        The index of a record counts from 0, the line of a sentence that was split from 1.
        """
        fields: dict[str, Any] = (
            {"index": number} if record.id is None else {"id": id_value(record.id)}
        )
        fields |= record.attributes
        if LINE in fields:
            fields[LINE] += 1
        if not self._format.forget_sentences:
            fields["sentence"] = record.text
        if self.keeps_tokens:
            fields["tokens"] = record.tokens
        return fields


class JsonlWriter(_StreamWriter):
    """Writer of lines, flushed one by one: {"index": 0, "sentence": "a", "activations": ...}."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the line of a record."""
        fields = self.fields(number, record) | kept_columns(record)
        start = json.dumps(fields, ensure_ascii=False, default=str)[:-1]
        line = f'{start}, "activations": {json_numbers(values)}}}\n'
        self._file.write(line.encode("utf-8", "surrogatepass"))
        self._file.flush()


def kept_columns(record: Record) -> dict[str, object]:
    """Return the columns of a record that are kept, by their names in the output."""
    return {new: record.columns[old] for old, new in kept_names(record.columns.keys()).items()}


def kept_names(names: Collection[str]) -> dict[str, str]:
    """Return the name in the output of each kept column."""
    return renamed_columns(names, _OWN_COLUMNS)


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
            fields = json.dumps(self.fields(number, record), ensure_ascii=False)
            self._records.append(f"{fields}\n")
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
    """Writer that adds rows to one array, whose length is written at the end.

    The ids of the rows go to a file next to it, one per line.
    """

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._n_rows, self._row_shape = 0, ()
        self._ids: list[str] = []
        file.write(bytes(_HEADER_BYTES))

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record.

        Raises:
            InputError: The id of the record is no line of a text.
        """
        if record.id is not None:
            if "\n" in record.id or "\r" in record.id:
                raise InputError(
                    f"the id {record.id[:60]!r} has a line end, but the file of ids next to npy "
                    "has one id per line. Use Parquet or JSON lines."
                )
            self._ids.append(record.id)
        self._n_rows, self._row_shape = self._n_rows + 1, values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Attributes) -> None:
        """Write the ids, and the header, which has the same length for any number of rows."""
        ids = self._file.final.with_name(self._file.final.name + IDS_SUFFIX)
        if self._ids:
            write_lines(ids, self._ids)
        else:
            ids.unlink(missing_ok=True)  # It may be of an output that this one replaces.
        shape = (self._n_rows, *self._row_shape)
        descr = np.lib.format.dtype_to_descr(np.dtype(self._format.dtype))
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)


class ParquetWriter(_StreamWriter):
    """Writer of rows, one group at a time: index, id, sentence, activations as nested lists."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._held: list[tuple[dict[str, Any], dict[str, object], Array]] = []
        self._kept_names: dict[str, None] = {}
        self._n_bytes, self._has_ids = 0, False
        self._table = ParquetTable(file, attributes)
        self._converter = ArrowColumns(output_format.column_types)

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record."""
        columns = kept_columns(record)
        check_kept(columns, self._table.names, number)
        self._held.append(({**self.fields(number, record), "index": number}, columns, values))
        self._n_bytes += values.nbytes + _ROW_BYTES + _TOKEN_BYTES * len(record.tokens)
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def fix_columns(self, types: Mapping[str, Any]) -> None:
        """Write these ids and kept columns with these types, also where no record has them."""
        self._converter.types |= types
        self._has_ids = "id" in types
        self._kept_names |= dict.fromkeys(name for name in types if name != "id")

    def finish(self, attributes: Attributes) -> None:
        """Write the buffered rows, and add these attributes to the run's."""
        if self._held or not self._table.names:
            self._write_held()
        self._table.finish(attributes)

    def _write_held(self) -> None:
        import pyarrow

        rows = [fields for fields, _, _ in self._held]
        names = {"index", *(rows[0] if rows else ()), *(["id"] if self._has_ids else [])}
        columns = {
            name: self._converter.own_column(name, [fields.get(name) for fields in rows])
            for name in _PARQUET_COLUMNS
            if name in names
        }
        kept_values = [values for _, values, _ in self._held]
        self._kept_names |= dict.fromkeys(name for each in kept_values for name in each)
        for name in self._kept_names:
            columns[name] = self._converter.kept_column(
                name, [each.get(name) for each in kept_values]
            )
        # Activations get no statistics: minimum and maximum of float16 take as long as compression.
        settings: dict[str, Any] = {"write_statistics": [*columns]}
        if self._held:
            block = [values for _, _, values in self._held]
            if self._format.compression is not None:
                leaf = "activations" + ".list.element" * block[0].ndim
                settings["compression"] = self._format.compression
                settings["use_dictionary"] = [*columns]
                # DuckDB cannot read float16 that is split into streams of bytes.
                splits = self._format.dtype == "float32"
                settings["use_byte_stream_split"] = [leaf] if splits else False
            columns["activations"] = pyarrow.chunked_array(
                nested_array(block[start : start + _CHUNK_RECORDS], pooled=self._format.pooled)
                for start in range(0, len(block), _CHUNK_RECORDS)
            )
        self._table.add(columns, **settings)
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
