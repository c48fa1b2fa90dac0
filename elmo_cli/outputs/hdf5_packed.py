"""HDF5 in the packed layout: one dataset for all records."""

import json
import math
from functools import cached_property
from typing import Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.files.json_form import parse_json
from elmo_cli.outputs.attributes import Attributes, as_text, with_types
from elmo_cli.outputs.hdf5 import (
    ARRAY_BYTES,
    CHUNK_BYTES,
    Array,
    DamagedError,
    Hdf5Writer,
    check_count,
    checked_dataset,
)
from elmo_cli.outputs.record_attributes import stored_attributes
from elmo_cli.records.record import Record

PREFIXES: Final = {
    "activations": "",
    "sentences": "sentence_",
    "keys": "key_",
    "tokens": "token_",
    "attributes": "attribute_",
}
"""Datasets of a packed file, with the prefix of the names of their offsets."""

# bytes that are written together, and read together in order, about
BLOCK_BYTES: Final = 1 << 22


BLOCK_RECORDS: Final = 1024


class PackedWriter(Hdf5Writer):
    """Writer that adds records to an open file, some MB at a time."""

    def _begin(self, file: h5py.File) -> None:
        if self._n_records:
            check_count(PackedFile(file).n_records, self._n_records)
        # End of the rows of the last record in each dataset.
        self._ends = {name: len(file[name]) for name in PREFIXES if name in file}
        self._held: dict[str, list[Array]] = {}  # rows that are not written yet
        self._n_bytes = 0
        if not self._format.forget_sentences:
            self._begin_dataset("sentences", np.empty(0, np.uint8))

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the rows and the texts of a record."""
        rows = values[np.newaxis] if self._format.pooled else np.swapaxes(values, 0, -2)
        self._add("activations", rows.copy())  # (T, ..., W)
        stored = stored_attributes(record)
        attributes = json.dumps(as_text(stored)) if stored else ""
        sentence = "" if self._format.forget_sentences else record.text
        texts = {
            "sentences": sentence,
            "keys": record.id or "",
            "attributes": attributes,
        }
        if self._keeps_tokens:
            texts["tokens"] = json.dumps(record.tokens, ensure_ascii=False)
        for name, text in texts.items():
            if text or name in self._ends:
                self._add(
                    name, np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
                )
        self._n_records += 1
        if self._n_bytes >= BLOCK_BYTES:
            self.flush()

    def finish(self, attributes: Attributes) -> None:
        """Write what is buffered and these attributes, and close the file."""
        if (
            "activations" not in self._ends
        ):  # Without any record the file still has offsets.
            self._held["offsets"] = [np.zeros(1, np.int64)]
        self.flush()
        super().finish(attributes)

    def _begin_dataset(self, name: str, rows: Array) -> None:
        """Begin a dataset for rows like these; the previous records have no rows in it."""
        if name not in self._ends:
            self._ends[name] = 0
            self._held[name] = [rows[:0]]
            self._held[f"{PREFIXES[name]}offsets"] = [
                np.zeros(self._n_records + 1, np.int64)
            ]

    def _add(self, name: str, rows: Array) -> None:
        self._begin_dataset(name, rows)
        self._ends[name] += len(rows)
        offsets = np.array([self._ends[name]])
        self._held.setdefault(name, []).append(rows)
        self._held.setdefault(f"{PREFIXES[name]}offsets", []).append(offsets)
        self._n_bytes += rows.nbytes + 2 * ARRAY_BYTES

    def flush(self) -> None:
        """Write everything that is buffered."""
        for name, parts in self._held.items():
            rows = np.concatenate(parts)
            if name not in self._hdf5:
                row_shape = rows.shape[1:]
                n_rows = max(
                    1, CHUNK_BYTES // (math.prod(row_shape) * rows.dtype.itemsize)
                )
                self._hdf5.create_dataset(
                    name,
                    shape=(0, *row_shape),
                    maxshape=(None, *row_shape),
                    dtype=rows.dtype,
                    chunks=(n_rows, *row_shape),
                    **self._filters,
                )
            dataset = self._hdf5[name]
            start = len(dataset)
            dataset.resize(start + len(rows), axis=0)
            dataset[start:] = rows
        self._held, self._n_bytes = {}, 0


class PackedFile:
    """Reader of an open file; see `reader.LayoutFile`."""

    is_ordered = True

    def __init__(self, file: h5py.File) -> None:
        """Check that the datasets fit together; raise a `DamagedError` if they do not."""
        self._path, self.pooled = file.filename, "pooling" in file.attrs
        offsets = checked_dataset(file, "offsets", "i8", (1,))
        self._offsets = {"activations": offsets}
        self._rows: dict[str, h5py.Dataset] = {}
        self.n_records = len(offsets) - 1
        for name, prefix in PREFIXES.items():
            if name in file:
                kind, n_axes = ("u1", (1,)) if prefix else ("f", (2, 3))
                self._rows[name] = checked_dataset(file, name, kind, n_axes)
                self._offsets[name] = checked_dataset(
                    file, f"{prefix}offsets", "i8", (1,)
                )
                check_count(len(self._offsets[name]) - 1, self.n_records)
        for name, ends in self._offsets.items():
            n_rows = len(self._rows[name]) if name in self._rows else 0
            if not len(ends) or (ends[0], ends[-1]) != (0, n_rows):
                raise DamagedError(f"{ends.name} do not end at {n_rows:,}")
        self.has_keys = "keys" in self._rows
        self.has_sentences = "sentences" in self._rows
        self._names = "keys" if self.has_keys else "sentences"

    def values(self, start: int, stop: int) -> list[Array]:
        """Read the activations of some records, a few MB."""
        stop = min(start + BLOCK_RECORDS, stop)
        rows = self._rows["activations"]
        max_rows = max(
            1, BLOCK_BYTES // (math.prod(rows.shape[1:]) * rows.dtype.itemsize)
        )
        offsets = self._offsets["activations"][start : stop + 1]
        n_fit = int(np.searchsorted(offsets, offsets[0] + max_rows, "right")) - 1
        parts = self._read("activations", offsets[: max(1, n_fit) + 1])
        if self.pooled:
            if not all(map(len, parts)):
                raise DamagedError("a pooled record has no vector")
            return [np.ascontiguousarray(part[0]) for part in parts]
        return [np.ascontiguousarray(np.moveaxis(part, 0, -2)) for part in parts]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return records without their activations."""
        names = ("sentences", "keys", "attributes", "tokens")
        columns = [self._texts(name, start, stop) for name in names]
        records = []
        rows = enumerate(zip(*columns, strict=True), start + 1)
        for number, (text, key, stored, tokens) in rows:
            name = f"{self._path}: record {number}"
            sentence = (
                parse_json(tokens, list[str], f"{name}, tokens")
                if tokens
                else text.split()
            )
            attributes = (
                parse_json(stored, dict[str, str], f"{name}, attributes")
                if stored
                else {}
            )
            records.append(Record(text, sentence, key or None, with_types(attributes)))
        return records

    def find(self, name: str) -> int | None:
        """Return the number of a record by its id; without ids, the last one with that text."""
        numbers = (
            np.flatnonzero(self._hashes == hash(name))[::-1].tolist() if name else []
        )
        return next(
            (n for n in numbers if self._texts(self._names, n, n + 1) == [name]), None
        )

    @cached_property
    def _hashes(self) -> NDArray[np.int64]:
        n_names = self.n_records if self._names in self._rows else 0
        blocks = (
            self._texts(self._names, start, min(start + BLOCK_RECORDS, n_names))
            for start in range(0, n_names, BLOCK_RECORDS)
        )
        return np.fromiter(
            (hash(text) for block in blocks for text in block), np.int64, n_names
        )

    def _texts(self, name: str, start: int, stop: int) -> list[str]:
        """Read the texts of some records in a column. A missing column has "" for each."""
        if name not in self._rows:
            return [""] * (stop - start)
        parts = self._read(name, self._offsets[name][start : stop + 1])
        try:
            return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]
        except UnicodeDecodeError as error:
            raise DamagedError(f"{name}: {error}") from None

    def _read(self, name: str, offsets: NDArray[np.int64]) -> list[Array]:
        """Read the rows of some records, split at their ends."""
        return np.split(
            self._rows[name][offsets[0] : offsets[-1]], offsets[1:-1] - offsets[0]
        )
