"""JSON lines, Parquet, npz and npy: formats that cannot resume an interrupted run.

JSON lines and Parquet have rows: one per record (`SentenceRows`), or one per token (`TokenRows`).
docs/tables.md describes the columns of tokens. A record without tokens has no rows of them.
"""

import json
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import renamed, sync
from elmo_cli.errors import InputError
from elmo_cli.json_form import json_text
from elmo_cli.outputs.output_formats import (
    Attributes,
    FormatWriter,
    OutputSettings,
    load_pyarrow,
)
from elmo_cli.text.parsers import LINE, ORIGINAL_ID
from elmo_cli.text.records import Record, id_value, renamed_columns

Array = NDArray[Any]
Columns = dict[str, list[Any]]

VECTOR: Final = "vector"
LAYER_PREFIX: Final = "layer_"
RECORDS: Final = "records.jsonl"
"""Member of npz that describes its records, where white space does not separate their tokens."""
_NPY_HEADER_BYTES: Final = 128
ROW_GROUP_BYTES: Final = (
    1 << 25
)  # bytes of rows that are buffered and written together to Parquet
# Bytes in memory, about.
_RECORD_BYTES, _TOKEN_BYTES, _CELL_BYTES = 1000, 60, 40
_CHUNK_RECORDS: Final = 8
"""Number of records whose levels Parquet computes together. The levels of a whole row group would
be new memory each time, which the kernel fills with zeros."""
_DIGITS: Final = {2: 5, 4: 9}  # decimal digits that read a float back, by its bytes
_INTEGERS: Final = ("index", "line", "sentence_number", "position")
_PARQUET_COLUMNS: Final = ("index", "id", "sentence", LINE, "tokens")
_OWN_COLUMNS: Final = (*_PARQUET_COLUMNS, ORIGINAL_ID, "activations")


class Rows(NamedTuple):
    """Rows of a record: the output's own columns, those kept from the input, and vectors."""

    n: int
    own: Columns
    kept: Columns
    vectors: dict[str, Any]  # array of each row, by its column
    n_bytes: int  # bytes in memory, about


class SentenceRows:
    """One row per record: its index or id, its sentence and its activations."""

    def __init__(self, output_format: OutputSettings, attributes: Attributes) -> None:
        self._format = output_format
        self.keeps_tokens = output_format.keeps_tokens(attributes)

    def fields(self, number: int, record: Record) -> dict[str, Any]:
        """Return the fields of a record, by its number from 0, without kept columns."""
        index = {"index": number} if record.id is None else {"id": id_value(record.id)}
        fields: dict[str, Any] = {**index, **record.attributes}
        if LINE in fields:
            fields[LINE] += 1  # It counts from 1 here.
        if not self._format.forget_sentences:
            fields["sentence"] = record.text
        if self.keeps_tokens:
            fields["tokens"] = record.tokens
        return fields

    def of(self, number: int, record: Record, values: Array) -> Rows:
        """Return the rows of a record, by its number from 0, with the values of its activations."""
        fields = self.fields(number, record)
        if self._format.name == "parquet":
            fields["index"] = number
            fields = {name: fields[name] for name in _PARQUET_COLUMNS if name in fields}
        own = {name: [value] for name, value in fields.items()}
        new_names = kept_names(record.columns.keys())
        kept = {new: [record.columns[old]] for old, new in new_names.items()}
        n_bytes = values.nbytes + _RECORD_BYTES + _TOKEN_BYTES * len(record.tokens)
        return Rows(1, own, kept, {"activations": [values]}, n_bytes)

    def nested(self, vectors: Sequence[Any]) -> Any:
        """Return the vectors of several `Rows` as a column of Arrow."""
        pyarrow, block = load_pyarrow(), [values for (values,) in vectors]
        return pyarrow.chunked_array(
            nested_array(
                block[start : start + _CHUNK_RECORDS], pooled=self._format.pooled
            )
            for start in range(0, len(block), _CHUNK_RECORDS)
        )

    def parquet_settings(self, columns: list[str], vectors: Columns) -> dict[str, Any]:
        """Return settings of `pyarrow.parquet.ParquetWriter` for the other columns and vectors."""
        # Activations get no statistics: minimum and maximum of float16 take as long as compression.
        settings: dict[str, Any] = {"write_statistics": columns}
        if self._format.compression is not None and vectors:
            (first,) = vectors["activations"][0]
            leaf = "activations" + ".list.element" * first.ndim
            settings["compression"] = self._format.compression
            settings["use_dictionary"] = columns
            # DuckDB cannot read float16 that is split into streams of bytes.
            settings["use_byte_stream_split"] = (
                [leaf] if self._format.dtype == "float32" else False
            )
        return settings


class TokenRows(SentenceRows):
    """One row per token. Subclasses choose other tokens and columns."""

    def __init__(self, output_format: OutputSettings, attributes: Attributes) -> None:
        super().__init__(output_format, attributes)
        # The sentences of a table are no records of their own.
        self._is_split = (
            "split_sentences" in attributes and attributes.get("format") == "text"
        )
        self._layers = attributes["layers"]

    def positions(self, record: Record) -> Sequence[int]:
        """Return the positions of the tokens that have a row."""
        return range(len(record.tokens))

    def columns(self, number: int, record: Record, positions: Sequence[int]) -> Columns:
        """Return the columns of a record's rows, without kept columns and vectors."""
        tokens = [record.tokens[position] for position in positions]
        return {**self.origin(number, record, positions), "token": tokens}

    def origin(self, number: int, record: Record, positions: Sequence[int]) -> Columns:
        """Return the columns that say where the tokens come from."""
        line = int(str(record.attributes.get(LINE, number))) + 1
        split = {"sentence_number": number + 1} if self._is_split else {}
        values = {"id": id_value(record.id), "line": line, **split}
        columns: Columns = {
            name: [value] * len(positions) for name, value in values.items()
        }
        return {**columns, "position": list(positions)}

    def of(self, number: int, record: Record, values: Array) -> Rows:
        """Return the rows of a record, with values (L, n, W) or (n, W)."""
        positions = [] if record.error is not None else self.positions(record)
        own = self.columns(number, record, positions)
        vectors = {VECTOR: values}
        if values.ndim > 2:
            layers = (
                self._layers.split(",") if "," in self._layers else range(len(values))
            )
            names = [f"{LAYER_PREFIX}{layer}" for layer in layers]
            vectors = dict(zip(names, values, strict=True))
        like_layers = {name for name in record.columns if name.startswith(LAYER_PREFIX)}
        new_names = renamed_columns(
            record.columns.keys(), {*own, "sentence_number", VECTOR, *like_layers}
        )
        kept = {
            new: [record.columns[old]] * len(positions)
            for old, new in new_names.items()
        }
        n_cells = len(positions) * (len(own) + len(kept))
        return Rows(
            len(positions), own, kept, vectors, values.nbytes + _CELL_BYTES * n_cells
        )

    def nested(self, vectors: Sequence[Any]) -> Any:
        """Return the vectors of several `Rows` as a column of Arrow, lists of fixed size."""
        pyarrow, block = load_pyarrow(), np.concatenate(vectors)
        flat = pyarrow.array(block.reshape(-1))
        return pyarrow.FixedSizeListArray.from_arrays(flat, block.shape[1])

    def parquet_settings(self, columns: list[str], vectors: Columns) -> dict[str, Any]:
        """Return settings without dictionaries of vectors, which take time and save nothing."""
        return {"use_dictionary": columns, "write_statistics": columns}


class _RowWriter(FormatWriter):
    rows_type: type[SentenceRows] | None = (
        None  # rows that replace the ones that the format names
    )

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        named_type = TokenRows if output_format.rows == "tokens" else SentenceRows
        self.rows = (self.rows_type or named_type)(output_format, attributes)


class JsonlWriter(_RowWriter):
    """Writer of lines, flushed after each record: {"index": 0, "sentence": "a", ...}."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the lines of a record."""
        rows = self.rows.of(number, record, values)
        columns = rows.own | rows.kept
        for index, row in enumerate(zip(*columns.values(), strict=True)):
            line = json_text(dict(zip(columns, row, strict=True)))[:-1]
            for name, arrays in rows.vectors.items():
                line += f', "{name}": {json_numbers(arrays[index])}'
            self._file.write(f"{line}}}\n".encode("utf-8", "surrogatepass"))
        self._file.flush()


class ParquetWriter(_RowWriter):
    """Writer of groups of rows. The first ones fix the types that nothing else fixes."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
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
            values, pyarrow.int64() if name in _INTEGERS else pyarrow.string()
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
            values = list(map(_as_text, values))
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


class NpzWriter(FormatWriter):
    """Writer that adds arrays to a zip archive in the format of `numpy.savez`."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._archive = zipfile.ZipFile(file, "w")
        self._rows = SentenceRows(output_format, attributes)
        self._records: list[str] = []

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the array of a record."""
        if self._rows.keeps_tokens:
            fields = self._rows.fields(number, record)
            self._records.append(f"{json.dumps(fields, ensure_ascii=False)}\n")
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
        np.lib.format.write_array(
            member, np.ascontiguousarray(values), allow_pickle=False
        )


class NpyWriter(FormatWriter):
    """Writer of one array, and of a file next to it with the ids of its rows, one per line."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._n_rows, self._row_shape = 0, ()
        self._ids: list[str] = []
        file.write(bytes(_NPY_HEADER_BYTES))

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record; raise an `InputError` if its id is no line of a text."""
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
        """Write the header, which has the same length for any number of rows."""
        descr = np.lib.format.dtype_to_descr(np.dtype(self._format.dtype))
        shape = (self._n_rows, *self._row_shape)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def publish(self, rename: Callable[[], object]) -> None:
        """Rename the array, then the ids. Even a kill never leaves ids next to other vectors."""
        path = ids_path(self._file.final)
        with renamed(path) if self._ids else nullcontext() as partial:
            if partial is not None:
                partial.write_text("".join(f"{each}\n" for each in self._ids), "utf-8")
                sync(partial)
            path.unlink(missing_ok=True)
            rename()


def ids_path(path: Path) -> Path:
    """Return the path of the ids of an array in npy."""
    return path.with_name(f"{path.name}.ids.txt")


def kept_names(names: Collection[str]) -> dict[str, str]:
    """Return the name of each kept column in an output with one row per record."""
    return renamed_columns(names, _OWN_COLUMNS)


def json_numbers(values: Array) -> str:
    """Return an array as nested lists of JSON, with null for infinity and NaN."""
    if values.ndim > 1:
        return "[" + ", ".join(json_numbers(part) for part in values) + "]"
    one = f"%.{_DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)


def nested_array(block: Sequence[Array], *, pooled: bool) -> Any:
    """Return arrays as nested Arrow lists, of fixed length except for the axis of tokens."""
    pyarrow = load_pyarrow()
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


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)
