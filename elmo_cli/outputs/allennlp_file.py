"""Reads a file of AllenNLP's layout; see `allennlp_layout`."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.damage import (
    check_claim,
    check_kind,
    check_string,
    checked_texts,
    has_name,
    part_of,
)
from elmo_cli.outputs.heap_string import open_string
from elmo_cli.outputs.linked_files import LinkedFiles
from elmo_cli.outputs.metadata_cache import MetadataCache
from elmo_cli.outputs.numbered_texts import NumberedTexts
from elmo_cli.outputs.object_header import check_attributes
from elmo_cli.outputs.sentence_index import read_pairs
from elmo_cli.text.lines import Record, known_record
from elmo_cli.text.records import shard_of

SENTENCE_TO_INDEX = "sentence_to_index"


class AllenNlpFile:
    """Reads it; see `reader.Activations`."""

    n_known_at_once = 1  # its dataset, the last one, tells the shape too

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._cache = MetadataCache(file)
        n_names = len(file)  # first: to count names, HDF5 drops them
        self._linked = LinkedFiles(file)
        self._spooled: list[NumberedTexts] = []  # to be closed
        self._last: tuple[int, h5py.Dataset] | None = None
        self.pooled = "pooling" in file.attrs
        self.has_keys = file.attrs.get("format") == "fasta"
        is_by_text = file.attrs.get("sentence_keys") == "True"  # AllenNLP does not say
        # A key or a sentence may have the name of the index, and there is none then.
        is_without = is_by_text or file.attrs.get("forget_sentences") == "True"
        self._has_index = has_name(file, SENTENCE_TO_INDEX) and not is_without
        n_names -= self._has_index
        self._shard = shard_of(file.attrs)
        numbered = self._has_index or n_names == 0
        last = self._shard.place(n_names - 1)
        numbered |= all(has_name(file, str(place)) for place in (self._shard.place(0), last))
        self._named_by_text = is_by_text or not (self.has_keys or numbered)
        self.n_records = len(self._names) if self._named_by_text else n_names
        self.has_sentences = self._has_index or self._named_by_text

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values: that of the first record's."""
        return np.dtype(self._dataset(0).dtype if self.n_records else np.float32)

    def shapes(self, start: int, stop: int) -> list[tuple[int, ...]]:
        """The shapes of some records."""
        return [self._dataset(number).shape for number in range(start, stop)]

    def values(self, number: int) -> NDArray[Any]:
        """The values of one record."""
        dataset = self._dataset(number)
        check_claim(dataset, dataset.shape)
        values: NDArray[Any] = dataset[()]
        return values

    def block(self, start: int, stop: int) -> list[NDArray[Any]]:
        """The values of some records."""
        return [self.values(number) for number in range(start, stop)]

    def blocks(self, start: int) -> Iterator[list[NDArray[Any]]]:
        """The values of all records from a number on, one at a time."""
        return ([self.values(number)] for number in range(start, self.n_records))

    def text(self, number: int) -> str | None:
        """The sentence of a record; None where the file has none, or names another one for it."""
        return self._names.get(number) if self._named_by_text else self._sentences.get(number)

    def key(self, number: int) -> str | None:
        """The key of a record; None where it has none."""
        return self._names.get(number) if self.has_keys else None

    def attributes(self, number: int) -> dict[str, str]:
        """What else is known of a record."""
        dataset = self._dataset(number)
        if not len(dataset.attrs):
            return {}
        check_attributes(dataset)
        return checked_texts(dict(dataset.attrs))

    def known(self, start: int, stop: int) -> list[Record]:
        """Some records, all that is known of them but their values."""
        return [
            known_record(self.text(number), self.key(number), self.attributes(number))
            for number in range(start, stop)
        ]

    def close(self) -> None:
        """Let go of what is open beside the file."""
        self._last = None
        self._linked.close()
        for texts in self._spooled:
            texts.close()
        self._spooled.clear()

    def find(self, name: str) -> int | None:
        """The number of the record of that key, or where there are none, the last of that text."""
        return self._numbers.get(name)

    def _dataset(self, number: int) -> h5py.Dataset:
        """The dataset of a record, which is like that of the first; kept for a second question."""
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        dataset = self._named(self._name(number))
        if number and (dataset.dtype, self._row_shape(dataset)) != self._first_form:
            raise ValueError(
                f"{dataset.name} has {dataset.dtype} values of the shape {dataset.shape}, which "
                "does not go with the first record's"
            )
        self._last = number, dataset
        return dataset

    def _name(self, number: int) -> str:
        has_names = self.has_keys or self._named_by_text
        name = self._names.get(number) if has_names else str(self._shard.place(number))
        return name or ""

    def _named(self, name: str) -> h5py.Dataset:
        self._cache.use()
        dataset = self._linked.find(name)
        check_kind(dataset, "f", (1, 2) if self.pooled else (2, 3))
        return dataset

    def _row_shape(self, dataset: h5py.Dataset) -> tuple[int, ...]:
        """Its shape without the axis of tokens."""
        return dataset.shape if self.pooled else (*dataset.shape[:-2], dataset.shape[-1])

    @cached_property
    def _first_form(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The type and the shape that all records have, but for the axis of tokens."""
        dataset = self._named(self._name(0))
        return dataset.dtype, self._row_shape(dataset)

    @cached_property
    def _names(self) -> NumberedTexts:
        """The names of all datasets, where these are no numbers: the file has no other order."""
        names = self._spool()

        def note(name: bytes) -> None:
            text = name.decode("utf-8", "surrogateescape")  # as h5py has it
            if text != SENTENCE_TO_INDEX or not self._has_index:
                names.append(text)

        def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if isinstance(item, h5py.Dataset):
                names.append(name)

        if not self.has_keys:
            self._file.visititems(visit)  # a "/" in a sentence makes a group
        elif len(self._file):
            self._file.id.links.iterate(note)
        return names

    @cached_property
    def _numbers(self) -> dict[str, int]:
        if self.has_keys or self._named_by_text:
            return {name: number for number, name in enumerate(self._names) if name is not None}
        return dict(self._pairs())

    @cached_property
    def _sentences(self) -> NumberedTexts:
        sentences = self._spool()
        for text, number in () if self.has_keys else self._pairs():
            sentences.put(number, text)
        return sentences

    def _spool(self) -> NumberedTexts:
        self._spooled.append(NumberedTexts())
        return self._spooled[-1]

    def _pairs(self) -> Iterator[tuple[str, int]]:
        """What `sentence_to_index` has: sentences, and the numbers of their records."""
        if not self._has_index:
            return
        dataset = part_of(self._file, SENTENCE_TO_INDEX)
        check_string(dataset)
        with open_string(dataset) as text:
            for sentence, place in read_pairs(text):
                yield sentence, self._number_of(place)

    def _number_of(self, place: int) -> int:
        """The number of a record by that in the name of its dataset."""
        number, which = divmod(place, self._shard.total)
        if which != self._shard.number - 1 or number >= self.n_records:
            raise ValueError(f"{SENTENCE_TO_INDEX} names the dataset {str(place)!r}")
        return number
