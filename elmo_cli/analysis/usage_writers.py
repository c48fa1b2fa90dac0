"""Writers for occurrences of target words: npz with one matrix per word, or a table.

A table has one row per occurrence, in the order of the text:

    word, form         target word, and the form that occurs
    line               number of the line, from 1; number of the record in CoNLL-U and JSON lines
    sentence_number    number of the sentence, from 1, only if lines were split into sentences
    id                 id of the record, or null
    position           index of the form among the tokens of the sentence, from 0
    sentence           text of the line or sentence
    tokens             tokens of the sentence, only if white space does not separate them
    vector             float, shape (W,); with several layers `layer_0`, `layer_1`, ... instead
"""

import json
import zipfile
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.target_words import WORDS, target_positions
from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat, has_own_tokens
from elmo_cli.outputs.streams import ROW_GROUP_BYTES, json_numbers, write_array
from elmo_cli.text.entries import LINE
from elmo_cli.text.records import Record

Array = NDArray[Any]
_Row = dict[str, Any]

VECTOR: Final = "vector"
"""Column with the vectors of one layer or mix."""
LAYER_PREFIX: Final = "layer_"
"""Prefix of the columns with the vectors of several layers."""
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


class _TableWriter(FormatWriter):
    """Base of the writers for tables."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._words: dict[str, str] = json.loads(attributes[WORDS])
        text_attributes = {name: value for name, value in attributes.items() if name != WORDS}
        self._has_tokens = has_own_tokens(text_attributes)
        self._is_split = "split_sentences" in attributes

    def _rows(self, number: int, record: Record, values: Array) -> Iterator[tuple[_Row, _Row]]:
        """Yield the columns of each occurrence without its vectors, and its vectors."""
        vectors = self._vectors(values)
        for row, position in enumerate(_written_positions(record)):
            form = record.tokens[position]
            columns: _Row = {"word": self._words[form], "form": form}
            columns["line"] = int(record.attributes.get(LINE, number)) + 1
            if self._is_split:
                columns["sentence_number"] = number + 1
            columns |= {"id": record.id, "position": position, "sentence": record.text}
            if self._has_tokens:
                columns["tokens"] = record.tokens
            yield columns, {name: rows[row] for name, rows in vectors.items()}

    def _vectors(self, values: Array) -> dict[str, Array]:
        """Return the columns with the vectors of a record, (n, W) each."""
        if values.ndim == 2:
            return {VECTOR: values}
        layers = self._attributes["layers"]
        numbers = layers.split(",") if "," in layers else range(len(values))
        return {
            f"{LAYER_PREFIX}{number}": rows for number, rows in zip(numbers, values, strict=True)
        }


class JsonlUsagesWriter(_TableWriter):
    """Writer for JSON lines: one object per occurrence, flushed after each record."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Write the rows of a record."""
        for columns, vectors in self._rows(number, record, values):
            start = json.dumps(columns, ensure_ascii=False)[:-1]
            rest = "".join(f', "{name}": {json_numbers(row)}' for name, row in vectors.items())
            self._file.write(f"{start}{rest}}}\n".encode("utf-8", "surrogatepass"))
        self._file.flush()


class ParquetUsagesWriter(_TableWriter):
    """Writer for Parquet: vectors are lists of fixed size."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        super().__init__(file, output_format, attributes)
        self._buffer: list[tuple[_Row, _Row]] = []
        self._n_bytes = 0
        self._writer: Any = None

    def write(self, number: int, record: Record, values: Array) -> None:
        """Collect the rows of a record, and write a row group when it is large enough."""
        rows = list(self._rows(number, record, values.copy()))
        self._buffer += rows
        self._n_bytes += values.nbytes
        if self._n_bytes >= ROW_GROUP_BYTES:
            self._write_buffer()

    def finish(self, attributes: Attributes) -> None:
        """Write the last rows and all attributes."""
        if self._buffer:
            self._write_buffer()
        if self._writer is not None:
            metadata = {**self._attributes, **attributes}
            self._writer.add_key_value_metadata({"elmo": json.dumps(metadata)})
            self._writer.close()

    def _write_buffer(self) -> None:
        import pyarrow
        from pyarrow import parquet

        types = {
            **dict.fromkeys(("line", "sentence_number", "position"), pyarrow.int64()),
            "tokens": pyarrow.list_(pyarrow.string()),
        }
        first, vectors = self._buffer[0]
        columns = {
            name: pyarrow.array(
                [row[name] for row, _ in self._buffer], types.get(name, pyarrow.string())
            )
            for name in first
        }
        for name, row in vectors.items():
            flat = pyarrow.array(np.concatenate([rows[name] for _, rows in self._buffer]))
            columns[name] = pyarrow.FixedSizeListArray.from_arrays(flat, len(row))
        table = pyarrow.table(columns)
        if self._writer is None:
            schema = table.schema.with_metadata({"elmo": json.dumps(self._attributes)})
            # Dictionaries and statistics of vectors would take time and save no space.
            options = {"use_dictionary": [*first], "write_statistics": [*first]}
            self._writer = parquet.ParquetWriter(self._file, schema, **options)
        self._writer.write_table(table)
        self._buffer, self._n_bytes = [], 0


def _written_positions(record: Record) -> list[int]:
    """Return the positions whose vectors are written, or an empty list for a skipped record."""
    return [] if record.error is not None else target_positions(record)
