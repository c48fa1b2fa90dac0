"""HDF5 in the packed layout: one dataset for all records, written and read.

The dataset `activations` has the rows of all records one after another, and `offsets`
has their ends. Datasets of texts are alike, and exist where a record has a text.
"""

import json
import math
from functools import cached_property
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.arrays import AnyArray
from elmo_cli.files.json_form import parse_json
from elmo_cli.outputs.attributes import Attributes, as_texts
from elmo_cli.outputs.hdf5_layouts import (
    CHUNK_BYTES,
    DamagedError,
    Hdf5Writer,
    check_count,
    checked_dataset,
)
from elmo_cli.outputs.record_attributes import (
    line_of,
    read_attributes,
    stored_attributes,
)
from elmo_cli.records.record import Record

PREFIXES: Final = {
    "activations": "",
    "sentences": "sentence_",
    "keys": "key_",
    "tokens": "token_",
    "attributes": "attribute_",
}
"""Datasets of a packed file, with the prefix of the names of their offsets."""
BLOCK_BYTES: Final = 1 << 22
"""Number of bytes that are written together, and read together in order, about."""
BLOCK_RECORDS: Final = 1024
"""Maximum number of records that are read together."""
_ARRAY_BYTES: Final = 150
"""Approximate bytes of an array in memory in addition to its values."""

Offsets = NDArray[np.int64]


def _offsets_name(dataset: str) -> str:
    """Return the name of the dataset with the offsets of a dataset."""
    return f"{PREFIXES[dataset]}offsets"


class PackedWriter(Hdf5Writer):
    """Writer that adds records to an open file, some MB at a time."""

    def _begin(self, file: h5py.File) -> None:
        if self._n_records:
            check_count(PackedFile(file).n_records, self._n_records)
        self._ends = {name: len(file[name]) for name in PREFIXES if name in file}
        """End of the rows of the last record in each dataset."""
        self._held: dict[str, list[AnyArray]] = {}
        """Rows of each dataset that are not written yet."""
        self._n_bytes = 0
        if not self._settings.forget_sentences:
            self._begin_dataset("sentences", np.empty(0, np.uint8))

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Add the rows and the texts of a record."""
        if self._settings.pooled:
            rows = values[np.newaxis]  # (1, ..., W)
        else:
            rows = np.swapaxes(values, 0, -2)  # (T, ..., W)
        self._add("activations", rows.copy())
        if not self._settings.forget_sentences:
            self._add_text("sentences", record.text)
        self._add_text("keys", record.id or "")
        attributes = stored_attributes(record)
        stored = json.dumps(as_texts(attributes)) if attributes else ""
        self._add_text("attributes", stored)
        if self._keeps_tokens:
            self._add_text("tokens", json.dumps(record.tokens, ensure_ascii=False))
        self._n_records += 1
        if self._n_bytes >= BLOCK_BYTES:
            self.flush()

    def finish(self, attributes: Attributes) -> None:
        """Write what is buffered and these attributes, and close the file."""
        if "activations" not in self._ends:
            # Without any record the file still has offsets.
            self._held["offsets"] = [np.zeros(1, np.int64)]
        self.flush()
        super().finish(attributes)

    def flush(self) -> None:
        """Write everything that is buffered."""
        for name, held in self._held.items():
            rows = np.concatenate(held)
            if name not in self._hdf5:
                self._create_dataset(name, rows)
            dataset = self._hdf5[name]
            start = len(dataset)
            dataset.resize(start + len(rows), axis=0)
            dataset[start:] = rows
        self._held = {}
        self._n_bytes = 0

    def _add_text(self, name: str, text: str) -> None:
        """Add a text to a dataset, which begins with the first text that is not ""."""
        if text or name in self._ends:
            encoded = text.encode("utf-8", "surrogatepass")
            self._add(name, np.frombuffer(encoded, np.uint8))

    def _add(self, name: str, rows: AnyArray) -> None:
        self._begin_dataset(name, rows)
        self._ends[name] += len(rows)
        self._held.setdefault(name, []).append(rows)
        end = np.array([self._ends[name]])
        self._held.setdefault(_offsets_name(name), []).append(end)
        self._n_bytes += rows.nbytes + 2 * _ARRAY_BYTES

    def _begin_dataset(self, name: str, rows: AnyArray) -> None:
        """Begin a dataset for rows like these, without rows of the records so far."""
        if name not in self._ends:
            self._ends[name] = 0
            self._held[name] = [rows[:0]]
            no_rows = np.zeros(self._n_records + 1, np.int64)
            self._held[_offsets_name(name)] = [no_rows]

    def _create_dataset(self, name: str, rows: AnyArray) -> None:
        """Create an empty dataset for rows like these, in chunks for HDF5's cache."""
        row_shape = rows.shape[1:]
        row_bytes = math.prod(row_shape) * rows.dtype.itemsize
        n_chunk_rows = max(1, CHUNK_BYTES // row_bytes)
        self._hdf5.create_dataset(
            name,
            shape=(0, *row_shape),
            maxshape=(None, *row_shape),
            dtype=rows.dtype,
            chunks=(n_chunk_rows, *row_shape),
            **self._filters,
        )


class PackedFile:
    """Open file in the packed layout; see `LayoutFile`."""

    is_ordered = True
    has_each_sentence = True

    def __init__(self, file: h5py.File) -> None:
        """Read the offsets; raise a `DamagedError` for datasets that do not fit."""
        self._path = file.filename
        self._is_pooled = "pooling" in file.attrs
        offsets = checked_dataset(file, "offsets", "i8", (1,))
        self.n_records = len(offsets) - 1
        self._offsets = {"activations": offsets}
        self._rows: dict[str, h5py.Dataset] = {}
        for name in PREFIXES:
            if name in file:
                self._add_dataset(file, name)
        for name, ends in self._offsets.items():
            n_rows = len(self._rows[name]) if name in self._rows else 0
            if not len(ends) or ends[0] != 0 or ends[-1] != n_rows:
                raise DamagedError(f"{ends.name} do not end at {n_rows:,}")
        self.has_ids = "keys" in self._rows
        self.has_sentences = "sentences" in self._rows
        self._names = "keys" if self.has_ids else "sentences"

    def _add_dataset(self, file: h5py.File, name: str) -> None:
        if name == "activations":
            rows = checked_dataset(file, name, "f", (2, 3))
        else:
            rows = checked_dataset(file, name, "u1", (1,))
        offsets = checked_dataset(file, _offsets_name(name), "i8", (1,))
        check_count(len(offsets) - 1, self.n_records)
        self._rows[name] = rows
        self._offsets[name] = offsets

    def values(self, start: int, stop: int) -> list[AnyArray]:
        """Read the activations of the first of these records, a few MB.

        There is at least one. The caller asks again for those that are missing.
        """
        stop = min(start + BLOCK_RECORDS, stop)
        offsets = self._offsets["activations"][start : stop + 1]
        n_records = self._count_fitting(offsets)
        parts = self._read("activations", offsets[: n_records + 1])
        arrays = []
        for part in parts:
            if not self._is_pooled:
                values = np.moveaxis(part, 0, -2)  # (..., T, W)
            elif len(part) > 0:
                values = part[0]
            else:
                raise DamagedError("a pooled record has no vector")
            arrays.append(np.ascontiguousarray(values))
        return arrays

    def _count_fitting(self, offsets: Offsets) -> int:
        """Count the first records whose rows fit into a block; at least 1."""
        rows = self._rows["activations"]
        row_bytes = math.prod(rows.shape[1:]) * rows.dtype.itemsize
        max_rows = max(1, BLOCK_BYTES // row_bytes)
        end_of_block = offsets[0] + max_rows
        n_ends = int(np.searchsorted(offsets[1:], end_of_block, "right"))
        return max(1, n_ends)

    def records(self, start: int, stop: int) -> list[Record]:
        """Return records without their activations."""
        sentences = self._texts("sentences", start, stop)
        ids = self._texts("keys", start, stop)
        attributes = self._texts("attributes", start, stop)
        tokens = self._texts("tokens", start, stop)
        records = []
        for row, index in enumerate(range(start, stop)):
            own_attributes = self._parse_attributes(index, attributes[row])
            record = Record(
                text=sentences[row],
                tokens=self._parse_tokens(index, tokens[row], sentences[row]),
                id=ids[row] or None,
                attributes=own_attributes,
                line=line_of(own_attributes),
            )
            records.append(record)
        return records

    def find(self, name: str) -> int | None:
        """Return the index of a record by its id, or of the last with that text."""
        if not name:
            return None
        indices = np.flatnonzero(self._hashes == hash(name))
        for index in reversed(indices.tolist()):
            if self._texts(self._names, index, index + 1) == [name]:
                return int(index)
        return None

    @cached_property
    def _hashes(self) -> NDArray[np.int64]:
        """Hash of each id; without ids, of each sentence."""
        if self._names not in self._rows:
            return np.empty(0, np.int64)
        hashes = np.empty(self.n_records, np.int64)
        for start in range(0, self.n_records, BLOCK_RECORDS):
            stop = min(start + BLOCK_RECORDS, self.n_records)
            texts = self._texts(self._names, start, stop)
            hashes[start:stop] = [hash(text) for text in texts]
        return hashes

    def _parse_tokens(self, index: int, stored: str, sentence: str) -> list[str]:
        if not stored:
            return sentence.split()
        return parse_json(stored, list[str], f"{self._record_name(index)}, tokens")

    def _parse_attributes(self, index: int, stored: str) -> dict[str, Any]:
        if not stored:
            return {}
        name = f"{self._record_name(index)}, attributes"
        return read_attributes(parse_json(stored, dict[str, str], name))

    def _record_name(self, index: int) -> str:
        """Return the name of a record for a message."""
        return f"{self._path}: record {index + 1}"

    def _texts(self, name: str, start: int, stop: int) -> list[str]:
        """Read the texts of some records. A missing dataset has "" for each."""
        if name not in self._rows:
            return [""] * (stop - start)
        parts = self._read(name, self._offsets[name][start : stop + 1])
        try:
            return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]
        except UnicodeDecodeError as error:
            raise DamagedError(f"{name}: {error}") from None

    def _read(self, name: str, offsets: Offsets) -> list[AnyArray]:
        """Read the rows of some records, split at their ends."""
        rows = self._rows[name][offsets[0] : offsets[-1]]
        return np.split(rows, offsets[1:-1] - offsets[0])
