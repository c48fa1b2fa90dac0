"""One row per token, for `--rows tokens`; docs/tables.md describes the columns."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.arrow_arrays import vectors_array
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.output_rows import (
    LAYER_PREFIX,
    SENTENCE_NUMBER,
    VECTOR,
    ColumnValues,
    Rows,
)
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.records.columns import renamed_columns
from elmo_cli.records.record import Record

_CELL_BYTES: Final = 40
"""Approximate bytes of a cell in memory."""


class TokenRows(SentenceRows):
    """One row per token. Subclasses choose other tokens and columns.

    A record without tokens has no rows.
    """

    def __init__(self, settings: OutputSettings, attributes: Attributes) -> None:
        super().__init__(settings, attributes)
        # The sentences of a table are no records of their own.
        self._is_split = (
            "split_sentences" in attributes and attributes.get("format") == "text"
        )
        self._layers = attributes["layers"]

    def positions(self, record: Record) -> Sequence[int]:
        """Return the positions of the tokens that have a row."""
        return range(len(record.tokens))

    def columns(
        self, index: int, record: Record, positions: Sequence[int]
    ) -> ColumnValues:
        """Return the columns of a record's rows, without kept columns and vectors."""
        columns = self.origin(index, record, positions)
        columns["token"] = [record.tokens[position] for position in positions]
        return columns

    def origin(
        self, index: int, record: Record, positions: Sequence[int]
    ) -> ColumnValues:
        """Return the columns that say where the tokens come from."""
        n_rows = len(positions)
        line = index + 1 if record.line is None else record.line
        columns: ColumnValues = {
            "id": [record.id_value] * n_rows,
            "line": [line] * n_rows,
        }
        if self._is_split:
            columns[SENTENCE_NUMBER] = [index + 1] * n_rows
        columns["position"] = list(positions)
        return columns

    def of(self, index: int, record: Record, values: AnyArray) -> Rows:
        """Return the rows of a record, with values (L, n, W) or (n, W)."""
        positions = [] if record.error is not None else self.positions(record)
        own = self.columns(index, record, positions)
        like_layers = {name for name in record.columns if name.startswith(LAYER_PREFIX)}
        taken = {*own, SENTENCE_NUMBER, VECTOR, *like_layers}
        kept = {}
        new_names = renamed_columns(record.columns.keys(), taken=taken)
        for old_name, new_name in new_names.items():
            kept[new_name] = [record.columns[old_name]] * len(positions)
        n_cells = len(positions) * (len(own) + len(kept))
        return Rows(
            n=len(positions),
            own=own,
            kept=kept,
            vectors=self._vectors(values),
            n_bytes=values.nbytes + _CELL_BYTES * n_cells,
        )

    def nested(self, vectors: Sequence[Any]) -> Any:
        """Return the vectors of several `Rows` as a column of Arrow."""
        return vectors_array(np.concatenate(vectors))

    def parquet_arguments(
        self, columns: list[str], vectors: ColumnValues
    ) -> dict[str, Any]:
        """Return arguments of `ParquetWriter`; `columns` are all but the vectors."""
        # Dictionaries of vectors would take time and save nothing.
        return {"use_dictionary": columns, "write_statistics": columns}

    def _vectors(self, values: AnyArray) -> dict[str, AnyArray]:
        """Return the vectors of each layer (n, W), by the name of their column."""
        if values.ndim == 2:
            return {VECTOR: values}
        layers: Sequence[object] = range(len(values))
        if "," in self._layers:
            layers = self._layers.split(",")
        names = [f"{LAYER_PREFIX}{layer}" for layer in layers]
        return dict(zip(names, values, strict=True))
