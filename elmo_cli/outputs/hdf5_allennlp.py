"""HDF5 in AllenNLP's layout: one dataset per record, written and read."""

import json
import logging
from functools import cached_property
from typing import Final

import h5py
import numpy as np
from h5py import h5d, h5s

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import first_line
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.shard import shard_of
from elmo_cli.outputs.attributes import (
    KEYS,
    Attributes,
    as_texts,
    has_own_tokens,
)
from elmo_cli.outputs.hdf5_layouts import (
    CHUNK_BYTES,
    CREATION,
    LINK,
    TOKENS,
    DamagedError,
    Hdf5Writer,
    check_count,
    checked_dataset,
    checked_name,
    make_space,
    make_type,
)
from elmo_cli.outputs.record_attributes import (
    line_of,
    read_attributes,
    stored_attributes,
)
from elmo_cli.records.record import Record

logger = logging.getLogger(__name__)

SENTENCE_TO_INDEX: Final = "sentence_to_index"
MANY_RECORDS: Final = 2_000_000
"""Number of records from which the packed layout is recommended."""
MAX_NESTED: Final = 500
"""Maximum number of groups around a dataset: HDF5 is slow with more."""


class AllenNlpWriter(Hdf5Writer):
    """Writer that adds one dataset per record to an open file."""

    def _begin(self, file: h5py.File) -> None:
        by_text = self._settings.use_sentence_keys
        self._has_index = not (self._settings.forget_sentences or by_text)
        self._index: dict[str, str] = {}
        """Name of the last dataset of each sentence."""
        # Named by their text, blank lines have no dataset, so that the count tells
        # nothing.
        if not by_text:
            check_count(_n_datasets(file), self._n_records)

    def skip_written(self, index: int, record: Record) -> None:
        """Index the sentence of a record that the file contains already."""
        self._index_sentence(index, record)

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Add the dataset of a record; raise an `InputError` if its name is invalid."""
        self._n_records += 1
        if self._n_records == MANY_RECORDS:
            message = Message(
                "HDF5 keeps the name of every line in memory",
                remedy="For more than {many} lines, use {--layout packed}.",
                many=f"{MANY_RECORDS:,}",
            )
            logger.warning("%s", message)
        if record.id:
            name = record.id
        elif self._settings.use_sentence_keys:
            name = record.text
        else:
            name = str(index)
        if not name:  # A blank line, which is its own name.
            return
        self._create_named(name, index, values)
        attributes = stored_attributes(record)
        if attributes:
            self._hdf5[name].attrs.update(as_texts(attributes))
        if self._keeps_tokens:
            tokens = json.dumps(record.tokens, ensure_ascii=False)
            self._hdf5[name].attrs[TOKENS] = tokens
        self._index_sentence(index, record)

    def finish(self, attributes: Attributes) -> None:
        """Add `sentence_to_index` and these attributes, and close the file."""
        # With ids there is no index, also if no record has shown that there are ids.
        if self._has_index and KEYS not in attributes:
            string = h5py.string_dtype(encoding="utf-8")
            dataset = self._hdf5.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)
            dataset[0] = json.dumps(self._index)
        super().finish(attributes)

    def _index_sentence(self, index: int, record: Record) -> None:
        if record.id is not None:
            self._has_index = False
        elif self._has_index and record.text:
            self._index[record.text] = str(index)

    def _create_named(self, name: str, index: int, values: AnyArray) -> None:
        """Add a dataset; raise an `InputError` if a sentence cannot name it."""
        try:
            self._create(name, values)
        except (TypeError, ValueError):
            if not self._settings.use_sentence_keys:
                raise
            # h5py raises it if a part of the name is a dataset already.
            raise InputError(
                f"line {index + 1}: the sentence {name[:60]!r} cannot name a dataset, "
                "or names an existing one",
                remedy="Remove {--use-sentence-keys True}.",
            ) from None

    def _create(self, name: str, values: AnyArray) -> None:
        """Add a dataset; raise a `ValueError` or `TypeError` for an invalid name."""
        if "\0" in name:
            raise ValueError("an HDF5 name cannot contain a null character")
        if self._filters and values.size:  # HDF5 has no empty chunks.
            self._hdf5.create_dataset(
                name, data=values, chunks=_chunk_shape(values), **self._filters
            )
            return
        # These calls take a third of the time of `create_dataset`.
        kind = make_type(values.dtype)
        space = make_space(values.shape)
        dataset = h5d.create(self._hdf5.id, name.encode(), kind, space, CREATION, LINK)
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values), kind)


def _n_datasets(file: h5py.File) -> int:
    """Count the datasets of a file, in groups if its ids have several columns."""
    if _begins_with_group(file):
        return len(_nested_names(file))
    return len(file)


def _begins_with_group(file: h5py.File) -> bool:
    first = next(iter(file), None)
    return first is not None and file.get(first, getclass=True) is h5py.Group


def _nested_names(file: h5py.File) -> list[str]:
    """Return the names of all datasets. A `/` in an id or a sentence makes a group."""
    names: list[str] = []

    def note(name: str | bytes, item: object) -> None:
        name = checked_name(name)
        if name.count("/") > MAX_NESTED:
            raise DamagedError(f"more than {MAX_NESTED} nested groups")
        if isinstance(item, h5py.Dataset):
            names.append(name)

    file.visititems(note)
    return names


def _chunk_shape(values: AnyArray) -> tuple[int, ...]:
    """Return the shape of chunks with about as many bytes as HDF5's cache holds."""
    chunk = list(values.shape)
    if values.ndim > 1:
        n_tokens = CHUNK_BYTES * chunk[-2] // values.nbytes
        chunk[-2] = min(chunk[-2], max(1, n_tokens))
    return tuple(chunk)


class AllenNlpFile:
    """Open file in AllenNLP's layout; see `LayoutFile`."""

    has_each_sentence = False

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._shard = shard_of(file.attrs)
        self._n_axes = (1, 2) if "pooling" in file.attrs else (2, 3)
        self.has_ids = file.attrs.get("format") == "fasta" or KEYS in file.attrs
        self._has_attributes = self.has_ids or has_own_tokens(file.attrs)
        is_by_text = file.attrs.get("sentence_keys") == "True"
        # An id or a sentence may have the name of the index; the file has no index
        # then.
        has_numbers = not self.has_ids and not is_by_text
        self._has_index = SENTENCE_TO_INDEX in file and has_numbers
        n_names = _n_datasets(file)
        if self._has_index:
            n_names -= 1
        # AllenNLP's files do not say whether sentences name their datasets.
        if has_numbers and not self._has_index and n_names:
            is_by_text = not self._is_numbered(n_names)
        self.has_sentences = self._has_index or is_by_text
        self.is_ordered = not self.has_ids and not is_by_text
        self.n_records = len(self._names) if is_by_text else n_names

    def values(self, start: int, stop: int) -> list[AnyArray]:
        """Read the activations of one record."""
        return [self._dataset(start)[()]]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return records without their activations."""
        return [self._record(index) for index in range(start, stop)]

    def find(self, name: str) -> int | None:
        """Return the index of a record by its id, or of the last with that text."""
        return self._indices.get(name)

    def _is_numbered(self, n_names: int) -> bool:
        """Return whether numbers name the datasets: the first and the last one's do."""
        first = self._shard.index_in_input(0)
        last = self._shard.index_in_input(n_names - 1)
        return str(first) in self._file and str(last) in self._file

    def _record(self, index: int) -> Record:
        attributes = {}
        if self._has_attributes:  # Reading attributes takes time.
            attributes = read_attributes(self._dataset(index).attrs)
        text = self._texts.get(index, "")
        stored = attributes.pop(TOKENS, None)
        if stored is None:
            tokens = text.split()
        else:
            name = f"{self._file.filename}: record {index + 1}, tokens"
            tokens = parse_json(stored, list[str], name)
        identifier = self._names[index] if self.has_ids else None
        return Record(
            text,
            tokens,
            id=identifier,
            attributes=attributes,
            line=line_of(attributes),
        )

    def _dataset(self, index: int) -> h5py.Dataset:
        if self.is_ordered:
            name = str(self._shard.index_in_input(index))
        else:
            name = self._names[index]
        return checked_dataset(self._file, name, "f", self._n_axes)

    @cached_property
    def _names(self) -> list[str]:
        """Names of all datasets of a file without numbers, which has no other order."""
        if self.has_ids and not _begins_with_group(self._file):
            return [checked_name(name) for name in self._file]
        return _nested_names(self._file)

    @cached_property
    def _indices(self) -> dict[str, int]:
        """Index of each id or sentence."""
        if not self.is_ordered:
            return {name: index for index, name in enumerate(self._names)}
        if not self._has_index:
            return {}
        dataset = checked_dataset(self._file, SENTENCE_TO_INDEX, "O", (1,))
        try:
            names = json.loads(dataset.asstr()[0])
            # bilm-tf wrote numbers, AllenNLP their names.
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
        """Sentence of each record, as far as the file contains it."""
        if self.has_ids:
            return {}
        return {index: text for text, index in self._indices.items()}
