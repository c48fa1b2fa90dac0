"""The packed layout: the activations of all records one after another, in one dataset.

    activations          (N, L, W) or (N, W): a row a token, or a record if tokens are pooled
    offsets              (n + 1,) int64: record i has the rows offsets[i] to offsets[i + 1]
    sentences            its text in UTF-8, bytes one after another
    sentence_offsets     (n + 1,) int64: record i has these bytes of it
    keys, key_offsets                  likewise, its key (of FASTA)
    attributes, attribute_offsets      likewise, what else is known of it, a JSON object

The last three pairs are there where a record has such a thing. A file of links to shards has
ranges in place of offsets (see `link_shards`). All datasets are chunked
and only ever grow at their end, so that memory and the time for a record stay the same.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.compression import CHUNK_BYTES, dataset_settings
from elmo_cli.outputs.damage import check_count
from elmo_cli.outputs.packed_file import PackedFile
from elmo_cli.text.lines import Record

Array = NDArray[Any]

LAYOUT: Final = "layout"
"""The attribute of a file that says so."""
PACKED: Final = "packed"


class PackedLayout:
    """Writes it; see `form.Layout`."""

    def __init__(
        self, compression: str | None = None, *, pooled: bool, forget_sentences: bool
    ) -> None:
        self._settings = dataset_settings(compression)
        self._pooled = pooled
        self._forget_sentences = forget_sentences
        self._file: h5py.File
        self._rows: _Growing | None = None  # from the first record on, which shows their shape
        self._n_rows = 0
        self._offsets: _Growing
        self._texts: dict[str, _Texts] = {}

    def open(self, sink: CheckpointedFile, attributes: Mapping[str, str], n_records: int) -> None:
        """Begin the file, or go on with it."""
        # HDF5 2 would keep 8 MB of chunks of each dataset; the last one is all that changes.
        self._file = h5py.File(sink, "r+" if sink.state else "w", rdcc_nbytes=2 * CHUNK_BYTES)
        if sink.state:
            check_count(PackedFile(self._file).n_records, n_records)
        self._file.attrs.update({**attributes, LAYOUT: PACKED})
        self._offsets = _offsets(self._file, "offsets", 0, self._settings)
        self._n_rows = self._offsets.last()
        if "activations" in self._file:
            self._rows = _Growing(self._file["activations"])
        for column in ("sentence", "key", "attribute"):
            begins = column == "sentence" and not self._forget_sentences
            if begins or f"{column}s" in self._file:
                self._texts[column] = _Texts(self._file, column, 0, self._settings)

    def skip(self, number: int, record: Record) -> None:
        """Nothing: the file has it all."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the rows and the texts of a record."""
        rows = values[np.newaxis] if self._pooled else np.swapaxes(values, 0, -2)  # (T, ..., W)
        if self._rows is None:
            self._rows = _Growing(
                _create(self._file, "activations", rows.shape[1:], rows.dtype, self._settings)
            )
        self._rows.append(rows)
        self._n_rows += len(rows)
        self._offsets.append(np.array([self._n_rows]))
        sentence = "" if self._forget_sentences else record.text
        attributes = json.dumps(dict(record.attributes)) if record.attributes else ""
        self._add_text("sentence", number, sentence)
        self._add_text("key", number, record.key or "")
        self._add_text("attribute", number, attributes)

    def flush(self) -> None:
        """Pass on to the sink what is held here and in HDF5."""
        for growing in (self._rows, self._offsets):
            if growing is not None:
                growing.flush()
        for texts in self._texts.values():
            texts.flush()
        self._file.flush()

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write what is held."""
        self._file.attrs.update(attributes)
        self.flush()
        self._file.close()

    def close(self) -> None:
        """Let go of the sink."""
        self._file.close()

    def _add_text(self, column: str, number: int, text: str) -> None:
        if text and column not in self._texts:
            self._texts[column] = _Texts(self._file, column, number, self._settings)
        if column in self._texts:
            self._texts[column].append(text)


class _Growing:
    """A dataset that grows at its end, a chunk at a time."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._row_shape: tuple[int, ...] = dataset.shape[1:]
        # Made for the first rows, not here: a damaged file may claim rows of any size.
        self._held: Array | None = None
        self._n_held = 0

    def append(self, rows: Array) -> None:
        # HDF5 would make others fit, and not always say so.
        if rows.shape[1:] != self._row_shape:
            raise ValueError(f"rows of {rows.shape[1:]} values among {self._row_shape}")
        if self._held is None:
            dtype = self._dataset.dtype
            n_rows = _chunk_rows(self._row_shape, dtype)
            self._held = np.empty((n_rows, *self._row_shape), dtype)
        while len(rows):
            part = rows[: len(self._held) - self._n_held]
            self._held[self._n_held : self._n_held + len(part)] = part
            self._n_held += len(part)
            if self._n_held == len(self._held):
                self.flush()
            rows = rows[len(part) :]

    def flush(self) -> None:
        if self._held is not None and self._n_held:
            start = len(self._dataset)
            self._dataset.resize(start + self._n_held, axis=0)
            self._dataset[start:] = self._held[: self._n_held]
        self._n_held = 0

    def last(self) -> int:
        """The last value, nothing being held."""
        return int(self._dataset[-1])


class _Texts:
    """A text for each record, one after another, and where each ends."""

    def __init__(
        self, file: h5py.File, column: str, n_empty: int, settings: dict[str, Any]
    ) -> None:
        """Go on, or begin after records that have none."""
        name = f"{column}s"
        if name not in file:
            _create(file, name, (), np.dtype(np.uint8), settings)
        self._bytes = _Growing(file[name])
        self._offsets = _offsets(file, f"{column}_offsets", n_empty, settings)
        self._n_bytes = self._offsets.last()

    def append(self, text: str) -> None:
        content = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        self._bytes.append(content)
        self._n_bytes += len(content)
        self._offsets.append(np.array([self._n_bytes]))

    def flush(self) -> None:
        self._bytes.flush()
        self._offsets.flush()


def _create(
    file: h5py.File,
    name: str,
    row_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    settings: dict[str, Any],
) -> h5py.Dataset:
    """An empty dataset of rows."""
    return file.create_dataset(
        name,
        shape=(0, *row_shape),
        maxshape=(None, *row_shape),
        dtype=dtype,
        chunks=(_chunk_rows(row_shape, dtype), *row_shape),
        **settings,
    )


def _chunk_rows(row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return max(1, CHUNK_BYTES // (math.prod(row_shape) * dtype.itemsize))


def _offsets(file: h5py.File, name: str, n_empty: int, settings: dict[str, Any]) -> _Growing:
    """The ends of records, to go on; new ones start with those of records without anything."""
    if name in file:
        return _Growing(file[name])
    dataset = _create(file, name, (), np.dtype(np.int64), settings)
    dataset.resize(n_empty + 1, axis=0)  # zeros
    return _Growing(dataset)
