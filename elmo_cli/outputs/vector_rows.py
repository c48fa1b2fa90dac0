"""JSON lines, Parquet, npz and npy: formats that cannot resume an interrupted run.

JSON lines and Parquet have rows: one per record (`SentenceRows`), or one per token (`TokenRows`).
docs/tables.md describes the columns of tokens. A record without tokens has no rows of them.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.optional_imports import load_pyarrow
from elmo_cli.files.json_form import json_text
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.arrow_arrays import CHUNK_RECORDS, nested_array
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.output_formats import keeps_tokens
from elmo_cli.outputs.record_attributes import LINE, ORIGINAL_ID, stored_attributes
from elmo_cli.records.columns import renamed_columns
from elmo_cli.records.record import Record

Array = NDArray[Any]
Columns = dict[str, list[Any]]

VECTOR: Final = "vector"
LAYER_PREFIX: Final = "layer_"
RECORDS: Final = "records.jsonl"
"""Member of npz that describes its records, where white space does not separate their tokens."""
# Bytes in memory, about.
_RECORD_BYTES, _TOKEN_BYTES, _CELL_BYTES = 1000, 60, 40
DIGITS: Final = {2: 5, 4: 9}  # decimal digits that read a float back, by its bytes
INTEGERS: Final = ("index", "line", "sentence_number", "position")
PARQUET_COLUMNS: Final = ("index", "id", "sentence", LINE, "tokens")
_OWN_COLUMNS: Final = (*PARQUET_COLUMNS, ORIGINAL_ID, "activations")


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
        self.keeps_tokens = keeps_tokens(output_format, attributes)

    def fields(self, number: int, record: Record) -> dict[str, Any]:
        """Return the fields of a record, by its number from 0, without kept columns."""
        fields: dict[str, Any] = {"index": number}
        if record.id is not None:
            fields = {"id": record.id_value}
        fields.update(stored_attributes(record))
        if record.line is not None:
            fields[LINE] = record.line  # It counts from 1 here.
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
            fields = {name: fields[name] for name in PARQUET_COLUMNS if name in fields}
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
                block[start : start + CHUNK_RECORDS], pooled=self._format.pooled
            )
            for start in range(0, len(block), CHUNK_RECORDS)
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
        line = number + 1 if record.line is None else record.line
        split = {"sentence_number": number + 1} if self._is_split else {}
        values = {"id": record.id_value, "line": line, **split}
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


class RowWriter(FormatWriter):
    """Writer of rows: one per record, or one per token."""

    def __init__(
        self,
        file: Any,
        output_format: OutputSettings,
        attributes: Attributes,
        rows_type: type[SentenceRows] | None = None,
    ) -> None:
        """Write to an open file. `rows_type` replaces the rows that the format names."""
        super().__init__(file, output_format, attributes)
        if rows_type is None:
            rows_type = TokenRows if output_format.rows == "tokens" else SentenceRows
        self.rows = rows_type(output_format, attributes)


def kept_names(names: Collection[str]) -> dict[str, str]:
    """Return the name of each kept column in an output with one row per record."""
    return renamed_columns(names, _OWN_COLUMNS)


def as_text(value: object) -> str | None:
    """Return a value as text: JSON, unless it is text or missing."""
    return value if value is None or isinstance(value, str) else json_text(value)
