"""Tables with one row per token, or per occurrence of a word, in Parquet or JSON lines.

    line               number of the line, from 1; number of the record in formats with records
    sentence_number    number of the sentence, from 1, only where lines were split into sentences
    id                 id of the record, or null
    position           index of the token among the tokens of the sentence, from 0
    token              the token
    ...                columns of the input that are kept
    vector             float, shape (W,); with several layers `layer_0`, `layer_1`, ... instead

A record without tokens, or one that was skipped, has no rows.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.arrow_columns import ArrowColumns, ParquetTable, check_kept
from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat
from elmo_cli.outputs.streams import ROW_GROUP_BYTES, json_numbers
from elmo_cli.text.entries import LINE
from elmo_cli.text.records import Record, id_value, renamed_columns

Array = NDArray[Any]
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
