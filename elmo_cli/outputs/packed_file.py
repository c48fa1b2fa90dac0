"""Reads a packed file; see `packed_layout`."""

import json
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.damage import check_claim, check_count, check_kind, checked_texts, part_of
from elmo_cli.outputs.linked_files import RANGES, LinkedFiles
from elmo_cli.text.lines import Record, known_record
from elmo_cli.text.records import shard_of

Array = NDArray[Any]

_BLOCK_BYTES: Final = 1 << 22
"""About how much is read at once where records are read in their order."""
_BLOCK_RECORDS: Final = 1024

PREFIXES: Final = {
    "activations": "",
    "sentences": "sentence_",
    "keys": "key_",
    "attributes": "attribute_",
}
"""What may lie in a file, and how the names of its offsets start."""


class PackedFile:
    """Reads it, and a file of links to several; see `reader.Activations`."""

    n_known_at_once = 256

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._datasets: dict[str, h5py.Dataset] = {}
        self._linked = LinkedFiles(file)
        self.pooled = "pooling" in file.attrs
        for name in file:
            part_of(file, name)  # no other file is opened
        self._is_linked = RANGES in file
        index = file[RANGES if self._is_linked else "offsets"]
        self.n_records = len(index) - (not self._is_linked)
        if self._is_linked:
            self._linked.open_all(name for name in PREFIXES if name in file)
        self._check_parts()
        self.has_keys = "keys" in file
        self.has_sentences = "sentences" in file
        self.shard = shard_of(file.attrs)

    def _check_parts(self) -> None:
        """Make sure that all parts go together."""
        for name, prefix in PREFIXES.items():
            n_rows = 0
            if name in self._file:
                rows = self._file[name]
                kind, n_axes = ("u1", (1,)) if prefix else ("f", (2, 3))
                check_kind(rows, kind, n_axes, or_virtual=self._is_linked)
                n_rows = len(rows)
            if self._is_linked and (name in self._file or not prefix):
                ranges = self._file[f"{prefix}{RANGES}"]
                check_kind(ranges, "i8", (2,))
                check_claim(ranges, ranges.shape)
                check_count(len(ranges), self.n_records)
            elif name in self._file or not prefix:
                self._check_offsets(f"{prefix}offsets", n_rows)

    def _check_offsets(self, name: str, n_rows: int) -> None:
        offsets = self._file[name]
        check_kind(offsets, "i8", (1,))
        check_claim(offsets, offsets.shape)
        check_count(len(offsets) - 1, self.n_records)
        if (offsets[0], offsets[-1]) != (0, n_rows):
            raise ValueError(f"{name} end at {offsets[-1]:,}, of {n_rows:,}")

    @property
    def file_attributes(self) -> dict[str, str]:
        """What the file says of its making."""
        return {name: str(value) for name, value in self._file.attrs.items()}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all values."""
        found = self._file["activations"].dtype if "activations" in self._file else np.float32
        return np.dtype(found)

    def shapes(self, start: int, stop: int) -> list[tuple[int, ...]]:
        """The shapes of some records."""
        if stop <= start:
            return []
        ranges = self._ranges("activations", start, stop)
        row = self._dataset("activations").shape[1:]
        return [
            tuple(row) if self.pooled else (*row[:-1], n_rows, row[-1])
            for n_rows in (ranges[:, 1] - ranges[:, 0]).tolist()
        ]

    def block(self, start: int, stop: int) -> list[Array]:
        """The values of some records."""
        if stop <= start:
            return []
        parts = self._read("activations", start, stop)
        if self.pooled and any(len(part) != 1 for part in parts):
            raise ValueError("a pooled record that has not one row")
        return [
            np.ascontiguousarray(part[0] if self.pooled else np.moveaxis(part, 0, -2))
            for part in parts
        ]

    def blocks(self, start: int = 0) -> Iterator[list[Array]]:
        """The values of all records from a number on, a few MB at a time."""
        while start < self.n_records:
            ranges = self._ranges("activations", start, min(start + _BLOCK_RECORDS, self.n_records))
            n_rows = np.cumsum(ranges[:, 1] - ranges[:, 0])
            most = max(1, _BLOCK_BYTES // _row_bytes(self._dataset("activations")))
            stop = start + max(1, int(np.searchsorted(n_rows, most, "right")))
            yield self.block(start, stop)
            start = stop

    def text(self, number: int) -> str | None:
        """The sentence of a record; None where the file has none."""
        return self._texts("sentences", number, number + 1)[0] if self.has_sentences else None

    def key(self, number: int) -> str | None:
        """The key of a record; None where it has none."""
        return (self._texts("keys", number, number + 1)[0] or None) if self.has_keys else None

    def known(self, start: int, stop: int) -> list[Record]:
        """Some records, all that is known of them but their values."""
        texts, keys, attributes = (
            self._texts(name, start, stop) if name in self._file else [""] * (stop - start)
            for name in ("sentences", "keys", "attributes")
        )
        return [
            known_record(text, key or None, checked_texts(json.loads(facts or "{}")))
            for text, key, facts in zip(texts, keys, attributes, strict=True)
        ]

    def find(self, name: str) -> int | None:
        """The number of the record of that key, or where there are none, the last of that text."""
        column = "keys" if self.has_keys else "sentences"
        order, hashes = self._index
        place = int(np.searchsorted(hashes, hash(name), "right")) - 1
        while name and place >= 0 and hashes[place] == hash(name):
            number = int(order[place])
            if self._texts(column, number, number + 1)[0] == name:
                return number
            place -= 1
        return None

    def close(self) -> None:
        """Let go of what is open beside the file."""
        self._datasets.clear()
        self._linked.close()

    @cached_property
    def _index(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The numbers of all records in the order of the hash of their names, and these."""
        column = "keys" if self.has_keys else "sentences"
        found = np.empty(self.n_records if self.has_keys or self.has_sentences else 0, np.int64)
        for start in range(0, len(found), _BLOCK_RECORDS):
            stop = min(start + _BLOCK_RECORDS, len(found))
            found[start:stop] = [hash(text) for text in self._texts(column, start, stop)]
        order = np.argsort(found, kind="stable")
        return order, found[order]

    def _texts(self, name: str, start: int, stop: int) -> list[str]:
        parts = self._read(name, start, stop)
        return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]

    def _read(self, name: str, start: int, stop: int) -> list[Array]:
        """The rows that some records have of a dataset; those that lie together read at once."""
        if stop <= start:
            return []
        dataset, ranges = self._dataset(name), self._ranges(name, start, stop)
        starts, ends = ranges.T
        order = np.lexsort((ends, starts))
        gaps = np.flatnonzero(starts[order[1:]] != ends[order[:-1]]) + 1
        parts: list[Array] = [np.empty(0)] * len(ranges)
        for run in np.split(order, gaps):
            first, last = int(starts[run[0]]), int(ends[run[-1]])
            check_claim(dataset, (last - first, *dataset.shape[1:]))
            rows = np.split(dataset[first:last], ends[run[:-1]] - first)
            for number, part in zip(run, rows, strict=True):
                parts[number] = part
        return parts

    def _ranges(self, name: str, start: int, stop: int) -> NDArray[np.int64]:
        """Where the rows of some records start and end in a dataset, (records, 2)."""
        prefix, n_rows = PREFIXES[name], len(self._dataset(name))
        if self._is_linked:
            ranges: NDArray[np.int64] = self._dataset(f"{prefix}{RANGES}")[start:stop]
        else:
            offsets = self._dataset(f"{prefix}offsets")[start : stop + 1]
            ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
        starts, ends = ranges.T
        if (starts < 0).any() or (ends < starts).any() or (ends > n_rows).any():
            raise ValueError(f"{prefix}offsets that fall, or lead beyond the end")
        return ranges

    def _dataset(self, name: str) -> h5py.Dataset:
        """A dataset, which stays open: a virtual one opens its sources each time."""
        if name not in self._datasets:
            self._datasets[name] = self._file[name]
        return self._datasets[name]


def _row_bytes(rows: h5py.Dataset) -> int:
    n_values: int = math.prod(rows.shape[1:])
    return n_values * int(rows.dtype.itemsize)
