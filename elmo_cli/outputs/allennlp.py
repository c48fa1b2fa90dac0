"""AllenNLP's layout: one dataset per line of the input, named by the line's number from "0".

The dataset of a record with an id is named by the id, and has the attributes of the record. Where
white space does not separate the tokens, the attribute `tokens` lists them as JSON.
docs/output.md describes the shapes, `sentence_to_index`, and what HDF5 keeps in memory.
"""

import json
import logging
from functools import cached_property
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from elmo_cli.errors import InputError, first_line
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.formats import (
    KEYS,
    Attributes,
    OutputFormat,
    as_text,
    has_own_tokens,
    with_types,
)
from elmo_cli.outputs.hdf5 import (
    CHUNK_BYTES,
    DamagedError,
    Hdf5Writer,
    check_count,
    checked_dataset,
)
from elmo_cli.outputs.resumable_file import ResumableFile
from elmo_cli.text.records import Record
from elmo_cli.text.shards import shard_of

logger = logging.getLogger(__name__)

SENTENCE_TO_INDEX: Final = "sentence_to_index"
TOKENS: Final = "tokens"
"""Attribute of a dataset that lists its tokens as JSON."""
MANY_RECORDS: Final = 2_000_000
"""Number of records from which `--layout packed` is recommended."""

_CREATION: Final = h5p.create(h5p.DATASET_CREATE)
_CREATION.set_obj_track_times(False)  # Equal runs write equal bytes.
_LINK: Final = h5p.create(h5p.LINK_CREATE)
_LINK.set_create_intermediate_group(True)  # A "/" in a sentence makes a group.


class AllenNlpWriter(Hdf5Writer):
    """Writer that adds one dataset per record to an open file."""

    def __init__(
        self,
        file: ResumableFile,
        output_format: OutputFormat,
        attributes: Attributes,
        n_records: int,
    ) -> None:
        """Begin the file, or resume it; raise a `DamagedError` unless it has `n_records`."""
        super().__init__(file, output_format, attributes)
        by_text = output_format.use_sentence_keys
        self._has_index = not (output_format.forget_sentences or by_text)
        self._index: dict[str, str] = {}
        self._n_records = n_records
        if not by_text:  # Blank lines have no dataset there.
            with self._open("r") as hdf5_file:
                check_count(len(hdf5_file), n_records)

    def skip(self, number: int, record: Record) -> None:
        """Index the sentence of a record that the file contains already."""
        if record.id is not None:
            self._has_index = False
        elif self._has_index and record.text:
            self._index[record.text] = str(number)

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the dataset of a record with a name; raise an `InputError` for an invalid name."""
        self._n_records += 1
        if self._n_records == MANY_RECORDS:
            logger.warning(
                "Warning: HDF5 keeps the name of every line in memory. For more than %s "
                "lines, use --layout packed.",
                f"{MANY_RECORDS:,}",
            )
        name = record.id or str(number)
        if record.id is None and self._format.use_sentence_keys:
            if not record.text:  # A blank line has no name.
                return
            name = record.text
        try:
            self._create(name, values)
        except (
            TypeError,
            ValueError,
        ):  # h5py raises it if a part of the name is a dataset already.
            if not self._format.use_sentence_keys:
                raise
            raise InputError(
                f"line {number + 1}: the sentence {name[:60]!r} cannot name a dataset, or names "
                "one that is there already; leave out --use-sentence-keys"
            ) from None
        if record.attributes:
            self._hdf5[name].attrs.update(as_text(record.attributes))
        if self.keeps_tokens:
            self._hdf5[name].attrs[TOKENS] = json.dumps(record.tokens, ensure_ascii=False)
        self.skip(number, record)

    def finish(self, attributes: Attributes) -> None:
        """Add `sentence_to_index` and these attributes, and close the file."""
        if self._has_index:
            string = h5py.string_dtype(encoding="utf-8")
            dataset = self._hdf5.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)
            dataset[0] = json.dumps(self._index)
        super().finish(attributes)

    def _create(self, name: str, values: NDArray[Any]) -> None:
        """Add a dataset; raise a `ValueError` or `TypeError` if it cannot have the name."""
        if "\0" in name:
            raise ValueError("HDF5 ends a name there")
        if self._settings and values.size:  # HDF5 has no empty chunks.
            self._hdf5.create_dataset(name, data=values, chunks=_chunk(values), **self._settings)
            return
        # These calls take two thirds of the time of `create_dataset`.
        kind, space = h5t.py_create(values.dtype), h5s.create_simple(values.shape)
        dataset = h5d.create(self._hdf5.id, name.encode(), kind, space, _CREATION, _LINK)
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))


def _chunk(values: NDArray[Any]) -> tuple[int, ...]:
    """Return a chunk shape of about as many bytes as HDF5's cache holds."""
    if values.ndim == 1:
        return values.shape
    n_rows = max(1, CHUNK_BYTES * values.shape[-2] // values.nbytes)
    return (*values.shape[:-2], min(n_rows, values.shape[-2]), values.shape[-1])


class AllenNlpFile:
    """Reader of an open file; see `reader.LayoutFile`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._n_axes = (1, 2) if "pooling" in file.attrs else (2, 3)
        self.has_keys = file.attrs.get("format") == "fasta" or KEYS in file.attrs
        self._has_attributes = self.has_keys or has_own_tokens(file.attrs)
        is_by_text = file.attrs.get("sentence_keys") == "True"  # AllenNLP's files do not say.
        # An id or a sentence may have the name of the index; the file has no index then.
        self._has_index = SENTENCE_TO_INDEX in file and not (self.has_keys or is_by_text)
        n_names = len(file) - self._has_index
        self._shard = shard_of(file.attrs)
        ends = {str(self._shard.number_in_input(number)) for number in (0, n_names - 1)}
        is_numbered = self._has_index or n_names == 0 or all(name in file for name in ends)
        self._is_by_text = is_by_text or not (self.has_keys or is_numbered)
        self.n_records = len(self._names) if self._is_by_text else n_names
        self.has_sentences = self._has_index or self._is_by_text
        self.is_ordered = not (self.has_keys or self._is_by_text)

    def values(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Read the activations of one record."""
        return [self._dataset(start)[()]]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return records without their activations."""
        records = []
        for number in range(start, stop):
            key = self._names[number] if self.has_keys else None
            attributes: dict[str, Any] = {}
            if self._has_attributes:  # Reading attributes takes time.
                attributes = with_types(self._dataset(number).attrs)
            text, tokens = self._texts.get(number, ""), attributes.pop(TOKENS, None)
            name = f"{self._file.filename}: record {number + 1}, tokens"
            sentence = text.split() if tokens is None else parse_json(tokens, list[str], name)
            records.append(Record(text, sentence, key, attributes))
        return records

    def find(self, name: str) -> int | None:
        """Return the number of a record by its id; without ids, the last one with that text."""
        return self._numbers.get(name)

    def _dataset(self, number: int) -> h5py.Dataset:
        name = str(self._shard.number_in_input(number)) if self.is_ordered else self._names[number]
        return checked_dataset(self._file, name, "f", self._n_axes)

    @cached_property
    def _names(self) -> list[str]:
        """Names of all datasets of a file without numbers, which has no other order."""
        if self.has_keys:
            return list(self._file)
        names: list[str] = []

        def note(name: str, item: object) -> None:
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
        # bilm-tf wrote numbers, AllenNLP their names.
        try:
            names = json.loads(dataset.asstr()[0])
            return {text: int(name) // self._shard.total for text, name in names.items()}
        except (AttributeError, IndexError, RecursionError, TypeError, ValueError) as error:
            raise DamagedError(f"{SENTENCE_TO_INDEX}: {first_line(error)}") from None

    @cached_property
    def _texts(self) -> dict[int, str]:
        """Sentence of each number that has one."""
        return {} if self.has_keys else {n: text for text, n in self._numbers.items()}
