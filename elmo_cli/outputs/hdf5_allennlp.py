"""HDF5 in AllenNLP's layout: one dataset per record."""

import json
import logging
from functools import cached_property
from typing import Final

import h5py
import numpy as np
from h5py import h5d, h5s

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import first_line
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.shard import shard_of
from elmo_cli.outputs.attributes import (
    KEYS,
    Attributes,
    as_text,
    has_own_tokens,
    with_types,
)
from elmo_cli.outputs.hdf5 import (
    CHUNK_BYTES,
    CREATION,
    LINK,
    TOKENS,
    Array,
    DamagedError,
    Hdf5Writer,
    check_count,
    checked_dataset,
    make_space,
    make_type,
)
from elmo_cli.outputs.record_attributes import stored_attributes
from elmo_cli.records.record import Record

logger = logging.getLogger(__name__)


SENTENCE_TO_INDEX: Final = "sentence_to_index"


# number of records from which `--layout packed` is recommended
MANY_RECORDS: Final = 2_000_000


MAX_NESTED: Final = 500  # groups around a dataset; HDF5 is slow with more


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
        attributes = stored_attributes(record)
        if attributes:
            self._hdf5[name].attrs.update(as_text(attributes))
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
        kind, space = make_type(values.dtype), make_space(values.shape)
        dataset = h5d.create(self._hdf5.id, name.encode(), kind, space, CREATION, LINK)
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values), kind)


class AllenNlpFile:
    """Reader of an open file; see `reader.LayoutFile`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._n_axes = (1, 2) if "pooling" in file.attrs else (2, 3)
        self.has_keys = file.attrs.get("format") == "fasta" or KEYS in file.attrs
        self._has_attributes = self.has_keys or has_own_tokens(file.attrs)
        # AllenNLP's files do not say.
        is_by_text = file.attrs.get("sentence_keys") == "True"
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
