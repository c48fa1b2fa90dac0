"""The packed layout: the activations of all records one after another, in one dataset.

    activations          (N, L, W) or (N, W): a row a token, or a record if tokens are pooled
    offsets              (n + 1,) int64: record i has the rows offsets[i] to offsets[i + 1]
    sentences            its text in UTF-8, bytes one after another
    sentence_offsets     (n + 1,) int64: record i has these bytes of it
    keys, key_offsets                  likewise, its key (of FASTA)
    attributes, attribute_offsets      likewise, what else is known of it, a JSON object

The last three pairs are there where a record has such a thing. All datasets are chunked
and only ever grow at their end, so that memory and the time for a record stay the same.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.compression import CHUNK_BYTES, dataset_settings
from elmo_cli.outputs.damage import (
    check_claim,
    check_count,
    check_kind,
    checked_texts,
    part_of,
)
from elmo_cli.shard import shard_of
from elmo_cli.text import Record

Array = NDArray[Any]

LAYOUT: Final = "layout"
"""The attribute of a file that says so."""
PACKED: Final = "packed"

_BLOCK_BYTES: Final = 1 << 22
"""About how much is read at once where records are read in their order."""
_BLOCK_RECORDS: Final = 1024


class PackedLayout:
    """Writes it; see `activations.Layout`."""

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
        self._file = h5py.File(sink, "r+" if sink.state else "w")
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
        rows = values[np.newaxis] if self._pooled else np.moveaxis(values, -2, 0)  # (T, ..., W)
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
    """A dataset that grows at its end, about a chunk at a time."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._pending: list[Array] = []
        self._n_pending = 0

    def append(self, rows: Array) -> None:
        # HDF5 would make others fit, and not always say so.
        if rows.shape[1:] != self._dataset.shape[1:]:
            raise ValueError(f"rows of {rows.shape[1:]} values among {self._dataset.shape[1:]}")
        self._pending.append(rows)
        self._n_pending += len(rows)
        if self._n_pending >= self._dataset.chunks[0]:
            self.flush()

    def flush(self) -> None:
        if self._n_pending:
            start = len(self._dataset)
            self._dataset.resize(start + self._n_pending, axis=0)
            self._dataset[start:] = np.concatenate(self._pending)
        self._pending, self._n_pending = [], 0

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
    n_rows = max(1, CHUNK_BYTES // (math.prod(row_shape) * dtype.itemsize))
    return file.create_dataset(
        name,
        shape=(0, *row_shape),
        maxshape=(None, *row_shape),
        dtype=dtype,
        chunks=(n_rows, *row_shape),
        **settings,
    )


def _row_bytes(rows: h5py.Dataset) -> int:
    n_values: int = math.prod(rows.shape[1:])
    return n_values * int(rows.dtype.itemsize)


def _offsets(file: h5py.File, name: str, n_empty: int, settings: dict[str, Any]) -> _Growing:
    """The ends of records, to go on; new ones start with those of records without anything."""
    if name in file:
        return _Growing(file[name])
    dataset = _create(file, name, (), np.dtype(np.int64), settings)
    dataset.resize(n_empty + 1, axis=0)  # zeros
    return _Growing(dataset)


class PackedFile:
    """Reads it; see `reader.Activations`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self.pooled = "pooling" in file.attrs
        for name in file:
            part_of(file, name)  # no other file is opened
        check_kind(file["offsets"], "i8", (1,))
        self.n_records = len(file["offsets"]) - 1
        self._check_parts()
        self.has_keys = "keys" in file
        self.has_sentences = "sentences" in file
        self.shard = shard_of(file.attrs)

    def _check_parts(self) -> None:
        """Make sure that all parts go together."""
        n_rows = 0
        if "activations" in self._file:
            rows = self._file["activations"]
            check_kind(rows, "f", (2, 3))
            n_rows = len(rows)
        self._check_offsets("offsets", n_rows)
        for column in ("sentence", "key", "attribute"):
            if f"{column}s" in self._file:
                texts = self._file[f"{column}s"]
                check_kind(texts, "u1", (1,))
                self._check_offsets(f"{column}_offsets", len(texts))

    def _check_offsets(self, name: str, n_rows: int) -> None:
        offsets = self._file[name]
        check_kind(offsets, "i8", (1,))
        check_claim(offsets, offsets.shape)
        check_count(len(offsets) - 1, self.n_records)
        if (offsets[0], offsets[-1]) != (0, n_rows):
            raise ValueError(f"{name} end at {offsets[-1]:,}, of {n_rows:,}")

    def _span(self, name: str, start: int, stop: int, n_rows: int) -> NDArray[np.int64]:
        """Where records start that lie together, and where the last one ends."""
        ends: NDArray[np.int64] = self._file[name][start : stop + 1]
        if ends[0] < 0 or ends[-1] > n_rows or (np.diff(ends) < 0).any():
            raise ValueError(f"{name} that fall, or lead beyond the end")
        return ends

    @property
    def file_attributes(self) -> dict[str, str]:
        """What the file says of its making."""
        return {name: str(value) for name, value in self._file.attrs.items()}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all values."""
        found = self._file["activations"].dtype if "activations" in self._file else np.float32
        return np.dtype(found)

    def shapes(self) -> Iterator[tuple[int, ...]]:
        """The shape of each record."""
        for start in range(0, self.n_records, _BLOCK_RECORDS):
            ends = self._file["offsets"][start : start + _BLOCK_RECORDS + 1]
            for n_rows in np.diff(ends).tolist():
                yield self._shape(n_rows)

    def _shape(self, n_rows: int) -> tuple[int, ...]:
        row = self._file["activations"].shape[1:]
        return tuple(row) if self.pooled else (*row[:-1], n_rows, row[-1])

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of one record."""
        first, last = self._span("offsets", number, number + 1, len(self._file["activations"]))
        return self._shape(int(last - first))

    def block(self, start: int, stop: int) -> list[Array]:
        """The values of records that lie together, read at once."""
        if stop <= start:
            return []
        activations = self._file["activations"]
        offsets = self._span("offsets", start, stop, len(activations))
        if self.pooled and (np.diff(offsets) != 1).any():
            raise ValueError("offsets of pooled tokens that are no rows")
        check_claim(activations, (int(offsets[-1] - offsets[0]), *activations.shape[1:]))
        rows = activations[offsets[0] : offsets[-1]]
        parts = np.split(rows, offsets[1:-1] - offsets[0])
        return [
            np.ascontiguousarray(part[0] if self.pooled else np.moveaxis(part, 0, -2))
            for part in parts
        ]

    def blocks(self) -> Iterator[list[Array]]:
        """The values of all records, a few MB at a time."""
        start = 0
        while start < self.n_records:
            stop = min(start + _BLOCK_RECORDS, self.n_records)
            ends = self._file["offsets"][start : stop + 1]
            most = max(1, _BLOCK_BYTES // _row_bytes(self._file["activations"]))
            stop = start + max(1, int(np.searchsorted(ends, ends[0] + most, "right")) - 1)
            yield self.block(start, stop)
            start = stop

    def text(self, number: int) -> str | None:
        """The sentence of a record; None where the file has none."""
        if not self.has_sentences:
            return None
        return self._texts("sentence", number, number + 1)[0]

    def key(self, number: int) -> str | None:
        """The key of a record; None where it has none."""
        return (self._texts("key", number, number + 1)[0] or None) if self.has_keys else None

    def attributes(self, number: int) -> dict[str, str]:
        """What else is known of a record."""
        if "attributes" not in self._file:
            return {}
        return checked_texts(json.loads(self._texts("attribute", number, number + 1)[0] or "{}"))

    def find(self, name: str) -> int | None:
        """The number of the record of that key, or where there are none, the last of that text."""
        column = "key" if self.has_keys else "sentence"
        order, hashes = self._index
        place = int(np.searchsorted(hashes, hash(name), "right")) - 1
        while name and place >= 0 and hashes[place] == hash(name):
            number = int(order[place])
            if self._texts(column, number, number + 1)[0] == name:
                return number
            place -= 1
        return None

    @cached_property
    def _index(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The numbers of all records in the order of the hash of their names, and these."""
        column = "key" if self.has_keys else "sentence"
        found = np.empty(self.n_records if self.has_keys or self.has_sentences else 0, np.int64)
        for start in range(0, len(found), _BLOCK_RECORDS):
            stop = min(start + _BLOCK_RECORDS, len(found))
            found[start:stop] = [hash(text) for text in self._texts(column, start, stop)]
        order = np.argsort(found, kind="stable")
        return order, found[order]

    def _texts(self, column: str, start: int, stop: int) -> list[str]:
        texts = self._file[f"{column}s"]
        ends = self._span(f"{column}_offsets", start, stop, len(texts))
        check_claim(texts, (int(ends[-1] - ends[0]),))
        content = texts[ends[0] : ends[-1]].tobytes()
        ends -= ends[0]
        return [
            content[first:last].decode("utf-8", "surrogatepass") for first, last in pairwise(ends)
        ]
