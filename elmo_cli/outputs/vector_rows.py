"""Tables with one row per token, or per occurrence of a word, in Parquet or JSON lines.

    line               number of the line, from 1; number of the record in formats with records
    sentence_number    number of the sentence, from 1, only where lines were split into sentences
    id                 id of the record, or null
    position           index of the token among the tokens of the sentence, from 0
    token              the token
    ...                columns of the input that are kept
    vector             float, shape (W,); with several layers `layer_0`, `layer_1`, ... instead

A record without tokens, or one that was skipped, has no rows.

Columns of Parquet that are no activations: values of Python to Arrow, and the file itself.

Formats that cannot resume an interrupted run: JSON lines, npz, npy and Parquet.
"""

import json
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import write_lines
from elmo_cli.errors import InputError
from elmo_cli.outputs.output_formats import Attributes, FormatWriter, OutputFormat
from elmo_cli.text.parsers import LINE, ORIGINAL_ID
from elmo_cli.text.records import Record, id_value, renamed_columns

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


Columns = dict[str, list[Any]]

VECTOR: Final = "vector"
"""Column with the vectors, where there is one layer or mix."""
_CELL_BYTES: Final = 40
"""Bytes of a value of a row in memory, about, apart from the vectors."""
LAYER_PREFIX: Final = "layer_"
"""Prefix of the columns with vectors, where there are several layers."""


class TableRows:
    """Rows of records, one per token. Subclasses choose other tokens and columns."""

    def __init__(self, attributes: Attributes) -> None:
        """Make the rows of an output with these attributes."""
        self._is_split = "split_sentences" in attributes
        self._layers = attributes["layers"]

    def positions(self, record: Record) -> Sequence[int]:
        """Return the positions of the tokens that have a row."""
        return range(len(record.tokens))

    def columns(self, number: int, record: Record, positions: Sequence[int]) -> Columns:
        """Return the columns of a record's rows, without kept columns and vectors."""
        return {
            **self.origin(number, record, len(positions)),
            "position": list(positions),
            "token": [record.tokens[position] for position in positions],
        }

    def origin(self, number: int, record: Record, n_rows: int) -> Columns:
        """Return the columns that say where the record comes from: its id and its line."""
        line = int(str(record.attributes.get(LINE, number))) + 1
        split = {"sentence_number": [number + 1] * n_rows} if self._is_split else {}
        return {"id": [id_value(record.id)] * n_rows, "line": [line] * n_rows, **split}

    def vectors(self, values: Array) -> dict[str, Array]:
        """Return the columns of vectors, (n, W) each, of values (L, n, W) or (n, W)."""
        if values.ndim == 2:
            return {VECTOR: values}
        numbers = self._layers.split(",") if "," in self._layers else range(len(values))
        return {
            f"{LAYER_PREFIX}{number}": rows for number, rows in zip(numbers, values, strict=True)
        }


class TableWriter(FormatWriter):
    """Base of the writers for tables."""

    rows_type: type[TableRows] = TableRows

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._rows = self.rows_type(attributes)

    def _columns(self, number: int, record: Record) -> tuple[Columns, Columns]:
        """Return the own and the kept columns of the rows of a record."""
        positions = [] if record.error is not None else self._rows.positions(record)
        columns = self._rows.columns(number, record, positions)
        like_layers = {name for name in record.columns if name.startswith(LAYER_PREFIX)}
        taken = {*columns, "sentence_number", VECTOR, *like_layers}
        new_names = renamed_columns(record.columns.keys(), taken)
        kept_columns = {
            new: [record.columns[old]] * len(positions) for old, new in new_names.items()
        }
        return columns, kept_columns


class JsonlTableWriter(TableWriter):
    """Writer for JSON lines: one object per row, flushed after each record."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Write the rows of a record."""
        vectors = self._rows.vectors(values)
        own_columns, kept_columns = self._columns(number, record)
        columns = own_columns | kept_columns
        for index, row in enumerate(zip(*columns.values(), strict=True)):
            fields = dict(zip(columns, row, strict=True))
            start = json.dumps(fields, ensure_ascii=False, default=str)[:-1]
            arrays = {name: json_numbers(rows[index]) for name, rows in vectors.items()}
            rest = "".join(f', "{name}": {numbers}' for name, numbers in arrays.items())
            self._file.write(f"{start}{rest}}}\n".encode("utf-8", "surrogatepass"))
        self._file.flush()


class ParquetTableWriter(TableWriter):
    """Writer for Parquet: vectors are lists of fixed size."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._table = ParquetTable(file, attributes)
        self._converter = ArrowColumns(output_format.column_types)
        self._held_own: Columns = {}
        self._held_kept: Columns = {}
        self._held_vectors: dict[str, list[Array]] = {}
        self._n_held = self._n_bytes = 0

    def write(self, number: int, record: Record, values: Array) -> None:
        """Collect the rows of a record, and write a group of rows when it is large enough."""
        vectors = self._rows.vectors(values)
        own_columns, kept_columns = self._columns(number, record)
        check_kept(kept_columns, self._table.names, number)
        n_rows = len(own_columns["position"])
        for name, column in own_columns.items():
            self._held_own.setdefault(name, []).extend(column)
        for name in {**self._held_kept, **kept_columns}:
            held = self._held_kept.setdefault(name, [None] * self._n_held)
            held.extend(kept_columns.get(name, [None] * n_rows))
        for name, rows in vectors.items():
            self._held_vectors.setdefault(name, []).append(rows)
        self._n_held += n_rows
        n_cells = n_rows * (len(own_columns) + len(kept_columns))
        self._n_bytes += values.nbytes + _CELL_BYTES * n_cells
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def finish(self, attributes: Attributes) -> None:
        """Write the last rows and all attributes."""
        if self._n_held or not self._table.names:
            self._write_held()
        self._table.finish(attributes)

    def _write_held(self) -> None:
        import pyarrow

        convert = self._converter
        columns = {
            name: convert.own_column(name, column) for name, column in self._held_own.items()
        }
        columns |= {
            name: convert.kept_column(name, column) for name, column in self._held_kept.items()
        }
        # Dictionaries and statistics of vectors would take time and save nothing.
        settings = {"use_dictionary": [*columns], "write_statistics": [*columns]}
        for name, parts in self._held_vectors.items():
            block = np.concatenate(parts)
            flat = pyarrow.array(block.reshape(-1))
            columns[name] = pyarrow.FixedSizeListArray.from_arrays(flat, block.shape[1])
            parts.clear()
        self._table.add(columns, **settings)
        for held in (*self._held_own.values(), *self._held_kept.values()):
            held.clear()
        self._n_held = self._n_bytes = 0
