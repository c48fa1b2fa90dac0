"""Both layouts of HDF5, written and read: AllenNLP's and the packed one.

docs/output.md describes the datasets, their shapes, `sentence_to_index`, and what HDF5 keeps in
memory. In the packed layout, datasets of texts exist where a record has a text. All datasets are
chunked and grow only at their end, so that memory and time per record stay constant.
"""

import json
import logging
import math
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from elmo_cli.errors import InputError, first_line
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.output_formats import (
    KEYS,
    Attributes,
    FormatWriter,
    OutputSettings,
    as_text,
    has_own_tokens,
    with_types,
)
from elmo_cli.outputs.resumable_file import ResumableFile
from elmo_cli.text.records import Record, shard_of

logger = logging.getLogger(__name__)

Array = NDArray[Any]

CHUNK_BYTES: Final = 1 << 19  # size before compression; HDF5's smallest cache holds two
_ZSTD: Final = 32015  # in the HDF Group's registry of filters
SENTENCE_TO_INDEX: Final = "sentence_to_index"
TOKENS: Final = "tokens"
MANY_RECORDS: Final = (
    2_000_000  # number of records from which `--layout packed` is recommended
)
BLOCK_BYTES: Final = (
    1 << 22
)  # bytes that are written together, and read together in order, about
BLOCK_RECORDS: Final = 1024
MAX_NESTED: Final = 500  # groups around a dataset; HDF5 is slow with more
_ARRAY_BYTES: Final = (
    150  # bytes of an array in memory in addition to its values, about
)
PREFIXES: Final = {
    "activations": "",
    "sentences": "sentence_",
    "keys": "key_",
    "tokens": "token_",
    "attributes": "attribute_",
}
"""Datasets of a packed file, with the prefix of the names of their offsets."""

_CREATION: Final = h5p.create(h5p.DATASET_CREATE)
_CREATION.set_obj_track_times(False)  # Equal runs write equal bytes.
_LINK: Final = h5p.create(h5p.LINK_CREATE)
_LINK.set_create_intermediate_group(True)  # A "/" in a sentence makes a group.
# Each object of HDF5 takes microseconds.
_make_type = cache(h5t.py_create)
_make_space = lru_cache(maxsize=1024)(h5s.create_simple)


class DamagedError(OSError):
    """Error of a check that found something that no run writes."""


class Hdf5Writer(FormatWriter):
    """Writer of an HDF5 file, which is closed at a checkpoint, so that resumed runs are equal."""

    def __init__(
        self,
        file: ResumableFile,
        settings: OutputSettings,
        attributes: Attributes,
        n_records: int,
    ) -> None:
        """Begin the file, or resume it; raise a `DamagedError` unless it has `n_records`."""
        super().__init__(file, settings, attributes)
        self._keeps_tokens = settings.keeps_tokens(attributes)
        self._n_records = n_records
        kind = settings.compression
        # Only the exponents of floats are similar, so bytes are shuffled.
        filters = {"compression": _ZSTD if kind == "zstd" else kind, "shuffle": True}
        self._filters: dict[str, Any] = (
            filters if kind else {}
        )  # arguments of `create_dataset`
        if file.state is None:
            with self._open("w") as begun:
                begun.attrs.update(attributes)
        with self._open("r") as begun:
            self._begin(begun)

    def _begin(self, file: h5py.File) -> None:
        """Prepare to add records to a file; raise a `DamagedError` unless it has `_n_records`."""
        raise NotImplementedError

    def finish(self, attributes: Attributes) -> None:
        """Add these attributes, and close the file."""
        self._hdf5.attrs.update(attributes)
        self.close()

    def close(self) -> None:
        """Close the file until the next record."""
        if "_hdf5" in vars(self):
            self._hdf5.close()
            del self._hdf5

    @cached_property
    def _hdf5(self) -> h5py.File:
        """File, opened for writing when it is closed."""
        return self._open("r+")

    def _open(self, mode: str) -> h5py.File:
        # A file that could not be written cannot be opened. An exception of h5py that is alive
        # when Python ends would make HDF5 close the file object later, which crashes.
        if self._file.error is not None:
            raise self._file.error
        # HDF5 2 would cache 8 MB of chunks per dataset, and only the last chunk changes.
        return h5py.File(self._file, mode, rdcc_nbytes=2 * CHUNK_BYTES)


def checked_dataset(
    group: h5py.Group, name: str, kind: str, n_axes: tuple[int, ...]
) -> Any:
    """Return a dataset after checking its axes and its dtype; `kind` is `f`, `u1` or `i8`, ..."""
    try:
        dataset = group[name]
    except (
        KeyError,
        RuntimeError,
    ) as error:  # The name is missing, or its link is broken.
        raise DamagedError(f"{name}: {first_line(error)}") from None
    is_dataset = isinstance(dataset, h5py.Dataset) and dataset.dtype.str[1:].startswith(
        kind
    )
    if not is_dataset or dataset.ndim not in n_axes:
        raise DamagedError(f"{name}: expected {kind} of {n_axes} axes, found {dataset}")
    return dataset


def check_count(n_found: int, n_expected: int) -> None:
    """Raise a `DamagedError` unless a file contains the expected number of records."""
    if n_found != n_expected:
        raise DamagedError(f"expected {n_expected:,} records, found {n_found:,}")


class AllenNlpWriter(Hdf5Writer):
    """Writer that adds one dataset per record to an open file."""

    def _begin(self, file: h5py.File) -> None:
        by_text = self._format.use_sentence_keys
        self._has_index = not (self._format.forget_sentences or by_text)
        self._index: dict[str, str] = {}
        if not by_text:  # Blank lines have no dataset there.
            check_count(len(file), self._n_records)

    def skip(self, number: int, record: Record) -> None:
        """Index the sentence of a record that the file contains already."""
        if record.id is not None:
            self._has_index = False
        elif self._has_index and record.text:
            self._index[record.text] = str(number)

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the dataset of a record with a name; raise an `InputError` for an invalid name."""
        self._n_records += 1
        if self._n_records == MANY_RECORDS:
            remedy = f"For more than {MANY_RECORDS:,} lines, use --layout packed."
            logger.warning(
                f"Warning: HDF5 keeps the name of every line in memory. {remedy}"
            )
        is_by_text = record.id is None and self._format.use_sentence_keys
        if is_by_text and not record.text:  # A blank line has no name.
            return
        name = record.text if is_by_text else record.id or str(number)
        try:
            self._create(name, values)
        except (TypeError, ValueError):
            if not self._format.use_sentence_keys:
                raise
            # h5py raises it if a part of the name is a dataset already.
            problem = f"the sentence {name[:60]!r} cannot name a dataset, or names an existing one"
            raise InputError(
                f"line {number + 1}: {problem}. Remove --use-sentence-keys."
            ) from None
        if record.attributes:
            self._hdf5[name].attrs.update(as_text(record.attributes))
        if self._keeps_tokens:
            self._hdf5[name].attrs[TOKENS] = json.dumps(
                record.tokens, ensure_ascii=False
            )
        self.skip(number, record)

    def finish(self, attributes: Attributes) -> None:
        """Add `sentence_to_index` and these attributes, and close the file."""
        if self._has_index:
            string = h5py.string_dtype(encoding="utf-8")
            dataset = self._hdf5.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)
            dataset[0] = json.dumps(self._index)
        super().finish(attributes)

    def _create(self, name: str, values: Array) -> None:
        """Add a dataset; raise a `ValueError` or `TypeError` if it cannot have the name."""
        if "\0" in name:
            raise ValueError("HDF5 ends a name there")
        if self._filters and values.size:  # HDF5 has no empty chunks.
            chunk = list(values.shape)
            if (
                values.ndim > 1
            ):  # A chunk has about as many bytes as HDF5's cache holds.
                chunk[-2] = min(
                    chunk[-2], max(1, CHUNK_BYTES * chunk[-2] // values.nbytes)
                )
            self._hdf5.create_dataset(
                name, data=values, chunks=tuple(chunk), **self._filters
            )
            return
        # These calls take a third of the time of `create_dataset`.
        kind, space = _make_type(values.dtype), _make_space(values.shape)
        dataset = h5d.create(
            self._hdf5.id, name.encode(), kind, space, _CREATION, _LINK
        )
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values), kind)


class AllenNlpFile:
    """Reader of an open file; see `reader.LayoutFile`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._n_axes = (1, 2) if "pooling" in file.attrs else (2, 3)
        self.has_keys = file.attrs.get("format") == "fasta" or KEYS in file.attrs
        self._has_attributes = self.has_keys or has_own_tokens(file.attrs)
        is_by_text = (
            file.attrs.get("sentence_keys") == "True"
        )  # AllenNLP's files do not say.
        # An id or a sentence may have the name of the index; the file has no index then.
        self._has_index = SENTENCE_TO_INDEX in file and not (
            self.has_keys or is_by_text
        )
        n_names = len(file) - self._has_index
        self._shard = shard_of(file.attrs)
        ends = {str(self._shard.number_in_input(number)) for number in (0, n_names - 1)}
        is_numbered = (
            self._has_index or n_names == 0 or all(name in file for name in ends)
        )
        self._is_by_text = is_by_text or not (self.has_keys or is_numbered)
        self.n_records = len(self._names) if self._is_by_text else n_names
        self.has_sentences = self._has_index or self._is_by_text
        self.is_ordered = not (self.has_keys or self._is_by_text)

    def values(self, start: int, stop: int) -> list[Array]:
        """Read the activations of one record."""
        return [self._dataset(start)[()]]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return records without their activations."""
        records = []
        for number in range(start, stop):
            key = self._names[number] if self.has_keys else None
            # Reading attributes takes time.
            attributes = (
                with_types(self._dataset(number).attrs) if self._has_attributes else {}
            )
            text, tokens = self._texts.get(number, ""), attributes.pop(TOKENS, None)
            name = f"{self._file.filename}: record {number + 1}, tokens"
            sentence = (
                text.split() if tokens is None else parse_json(tokens, list[str], name)
            )
            records.append(Record(text, sentence, key, attributes))
        return records

    def find(self, name: str) -> int | None:
        """Return the number of a record by its id; without ids, the last one with that text."""
        return self._numbers.get(name)

    def _dataset(self, number: int) -> h5py.Dataset:
        name = (
            str(self._shard.number_in_input(number))
            if self.is_ordered
            else self._names[number]
        )
        return checked_dataset(self._file, name, "f", self._n_axes)

    @cached_property
    def _names(self) -> list[str]:
        """Names of all datasets of a file without numbers, which has no other order."""
        if self.has_keys:
            return list(self._file)
        names: list[str] = []

        def note(name: str, item: object) -> None:
            if name.count("/") > MAX_NESTED:
                raise DamagedError(f"more than {MAX_NESTED} nested groups")
            if isinstance(item, h5py.Dataset):
                names.append(name)

        self._file.visititems(note)  # A "/" in a sentence makes a group.
        return names

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Number of each id or sentence."""
        if not self.is_ordered:
            return {name: number for number, name in enumerate(self._names)}
        if not self._has_index:
            return {}
        dataset = checked_dataset(self._file, SENTENCE_TO_INDEX, "O", (1,))
        try:  # bilm-tf wrote numbers, AllenNLP their names.
            names = json.loads(dataset.asstr()[0])
            return {
                text: int(name) // self._shard.total for text, name in names.items()
            }
        except (
            AttributeError,
            IndexError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise DamagedError(f"{SENTENCE_TO_INDEX}: {first_line(error)}") from None

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {} if self.has_keys else {n: text for text, n in self._numbers.items()}


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
        attributes = json.dumps(as_text(record.attributes)) if record.attributes else ""
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
        self._n_bytes += rows.nbytes + 2 * _ARRAY_BYTES

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
