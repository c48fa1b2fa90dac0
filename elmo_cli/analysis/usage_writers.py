"""Writers for occurrences of target words: npz with one matrix per word, or a table.

A table has one row per occurrence, in the order of the text:

    word, form         target word, and the form that occurs
    id, line, ...      as in `outputs.tables`, without `token`
    sentence           text of the line or sentence
    tokens             its tokens, only if white space does not separate them
    vector, ...        as in `outputs.tables`
"""

import json
import zipfile
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.target_words import WORDS, target_positions
from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat, has_own_tokens
from elmo_cli.outputs.streams import write_array
from elmo_cli.outputs.tables import (
    Columns,
    JsonlTableWriter,
    ParquetTableWriter,
    TableRows,
)
from elmo_cli.text.records import Record

Array = NDArray[Any]

COLUMNS: Final = ("word", "form", "line", "id", "position", "sentence")
"""Columns of every table, without the vectors."""


class NpzUsagesWriter(FormatWriter):
    """Writer for one array per word: (n, W), or (n, L, W) for several layers.

    The pipelines of SemEval-2020, task 1, read this form. The arrays are in memory until the end.
    """

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._words: dict[str, str] = json.loads(attributes[WORDS])
        self._rows: dict[str, list[Array]] = {word: [] for word in self._words.values()}
        self._no_rows = np.empty((0, 0), output_format.dtype)

    def write(self, number: int, record: Record, values: Array) -> None:
        """Collect the vectors of a record: (L, n, W) or (n, W)."""
        rows = np.swapaxes(values, 0, -2)  # (n, L, W) or (n, W)
        self._no_rows = rows[:0].copy()
        for position, row in zip(_written_positions(record), rows, strict=True):
            self._rows[self._words[record.tokens[position]]].append(row.copy())

    def finish(self, attributes: Attributes) -> None:
        """Write one array per word. The array of a word that never occurs has no rows."""
        with zipfile.ZipFile(self._file, "w") as archive:
            for word, rows in self._rows.items():
                write_array(archive, word, np.stack(rows) if rows else self._no_rows)


class UsageRows(TableRows):
    """Rows of the occurrences of target words."""

    def __init__(self, attributes: Attributes) -> None:
        super().__init__(attributes)
        self._words: dict[str, str] = json.loads(attributes[WORDS])
        others = {name: value for name, value in attributes.items() if name != WORDS}
        self._has_tokens = has_own_tokens(others)

    def positions(self, record: Record) -> Sequence[int]:
        """Return the positions of the target words."""
        return target_positions(record)

    def columns(self, number: int, record: Record, positions: Sequence[int]) -> Columns:
        """Return the columns of a record's rows, without kept columns and vectors."""
        forms = [record.tokens[position] for position in positions]
        tokens = {"tokens": [record.tokens] * len(forms)} if self._has_tokens else {}
        return {
            "word": [self._words[form] for form in forms],
            "form": forms,
            **self.origin(number, record, len(forms)),
            "position": list(positions),
            "sentence": [record.text] * len(forms),
            **tokens,
        }


class JsonlUsagesWriter(JsonlTableWriter):
    """Writer for JSON lines: one object per occurrence, flushed after each record."""

    rows_type = UsageRows


class ParquetUsagesWriter(ParquetTableWriter):
    """Writer for Parquet: vectors are lists of fixed size."""

    rows_type = UsageRows


def _written_positions(record: Record) -> list[int]:
    """Return the positions whose vectors are written, or an empty list for a skipped record."""
    return [] if record.error is not None else target_positions(record)
