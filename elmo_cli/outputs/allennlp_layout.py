"""AllenNLP's layout: one dataset a line of the input, named by the line's number from "0".

A record with a key (of FASTA) names its dataset by that, and gives it its attributes.
Shapes are (L, T, W), or (T, W) where one layer is chosen or mixed, and without the T
where tokens are pooled; a blank line gives an empty one, or zeros. And
`sentence_to_index`, shape (1,): a JSON string that maps each sentence to the name of
its dataset, the last one of equal sentences.
Attributes of the file say what made it.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.compression import CHUNK_BYTES, dataset_settings
from elmo_cli.outputs.damage import (
    check_claim,
    check_count,
    check_kind,
    check_string,
    checked_texts,
    has_name,
    part_of,
)
from elmo_cli.outputs.heap_string import (
    MOST_BYTES,
    create_empty_string,
    open_string,
    write_string,
)
from elmo_cli.outputs.linked_files import LinkedFiles, linked
from elmo_cli.outputs.numbered_texts import NumberedTexts
from elmo_cli.outputs.object_header import check_attributes
from elmo_cli.outputs.sentence_index import SentenceIndex, read_pairs
from elmo_cli.shard import WHOLE, shard_of
from elmo_cli.text import Record, known_record

logger = logging.getLogger(__name__)

SENTENCE_TO_INDEX = "sentence_to_index"
LONG_BYTES: Final = 1 << 25
"""A string from here on is written in pieces; HDF5 holds three copies of one."""


class AllenNlpLayout:
    """Writes it; see `activations.Layout`."""

    def __init__(
        self, compression: str | None = None, *, forget_sentences: bool, use_sentence_keys: bool
    ) -> None:
        self._settings = dataset_settings(compression)
        self._use_sentence_keys = use_sentence_keys
        self._has_index = not (forget_sentences or use_sentence_keys)
        self._index: SentenceIndex | None = None
        self._file: h5py.File
        self._sink: CheckpointedFile
        self._shard = WHOLE

    def open(self, sink: CheckpointedFile, attributes: Mapping[str, str], n_records: int) -> None:
        """Begin the file, or go on with it."""
        self._file = h5py.File(sink, "r+" if sink.state else "w")
        if sink.state and not self._use_sentence_keys:  # where blank lines have no dataset
            has_index = self._has_index and has_name(self._file, SENTENCE_TO_INDEX)
            check_count(len(self._file) - has_index, n_records)
        self._file.attrs.update(attributes)
        self._sink = sink
        self._shard = shard_of(attributes)

    def skip(self, number: int, record: Record) -> None:
        """Note a sentence that has its dataset already."""
        self._note(record, number)

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the dataset of a record, if it has a name.

        Raises:
            InputError: its text cannot be that name, and should.
        """
        key = self._name(record.key or number)
        if self._use_sentence_keys:
            key = self._sentence_key(number, record.text)
        if key:
            settings: dict[str, Any] = {}
            if self._settings and values.size:  # no chunk holds nothing
                settings = {**self._settings, "chunks": _chunk(values)}
            dataset = self._file.create_dataset(key, data=values, **settings)
            dataset.attrs.update(record.attributes)
            self._note(record, number)

    def flush(self) -> None:
        """Pass on to the sink what HDF5 holds."""
        self._file.flush()

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Add `sentence_to_index`."""
        self._file.attrs.update(attributes)
        if self._has_index:
            if has_name(self._file, SENTENCE_TO_INDEX):  # of a run that was killed as it finished
                del self._file[SENTENCE_TO_INDEX]
            self._write_index()
        self.close()

    def _write_index(self) -> None:
        """Add `sentence_to_index`, and close the file where it is long."""
        with (self._index or SentenceIndex()).write_json(self._name) as text:
            n_bytes = text.tell()
            if n_bytes > MOST_BYTES:
                logger.warning(
                    "Warning: sentence_to_index would have %s bytes, and a string of HDF5 has "
                    "%s at most; it is left out",
                    f"{n_bytes:,}",
                    f"{MOST_BYTES:,}",
                )
            elif n_bytes < LONG_BYTES:
                text.seek(0)
                string = h5py.string_dtype(encoding="utf-8")
                dataset = self._file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)
                dataset[0] = text.read().decode()
            else:
                reference = create_empty_string(self._file, SENTENCE_TO_INDEX)
                self._file.close()
                write_string(self._sink, reference, text)

    def close(self) -> None:
        """Let go of the sink."""
        self._file.close()
        if self._index is not None:
            self._index.close()

    def _name(self, key: str | int) -> str:
        """The name of the dataset of a record, by its key or its number."""
        return key if isinstance(key, str) else str(self._shard.place(key))

    def link(self, number: int, record: Record, source: Path) -> None:
        """Add a link to the dataset of a record in another file of this layout."""
        name = self._name(record.key or number)
        self._file[name] = h5py.ExternalLink(os.path.relpath(source, self._sink.path.parent), name)
        self._note(record, number)

    def _note(self, record: Record, number: int) -> None:
        if self._has_index and record.text:
            self._index = self._index or SentenceIndex()
            self._index.add(record.text, record.key or number)

    def _sentence_key(self, number: int, sentence: str) -> str:
        """The sentence as the name of a dataset; "" for a blank line, which has none."""
        if not sentence:
            return ""
        advice = "leave out --use-sentence-keys"
        place = f"line {number + 1}: the sentence {sentence[:60]!r}"
        # "/" parts names into groups, and "." is the group itself.
        if "\0" in sentence or any(part in ("", ".") for part in sentence.split("/")):
            raise InputError(f"{place} cannot name a dataset; {advice}")
        try:
            taken = sentence in self._file
        except (KeyError, ValueError):
            taken = True
        parents = sentence.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            taken |= isinstance(self._file.get("/".join(parents[:depth])), h5py.Dataset)
        if taken:
            raise InputError(f"{place} names a dataset that is there already; {advice}")
        return sentence


def _chunk(values: NDArray[Any]) -> tuple[int, ...]:
    """Some tokens of a record, about as many bytes as HDF5 keeps at hand."""
    if values.ndim == 1:
        return values.shape
    n_rows = max(1, CHUNK_BYTES * values.shape[-2] // values.nbytes)
    return (*values.shape[:-2], min(n_rows, values.shape[-2]), values.shape[-1])


class AllenNlpFile:
    """Reads it; see `reader.Activations`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._linked = LinkedFiles(file)
        self._spooled: list[NumberedTexts] = []  # to be closed
        self._last: tuple[int, h5py.Dataset] | None = None
        self.pooled = "pooling" in file.attrs
        self.has_keys = file.attrs.get("format") == "fasta"
        is_by_text = file.attrs.get("sentence_keys") == "True"  # only if it is of ours
        # A key or a sentence may have the name of the index, and there is none then.
        is_without = is_by_text or file.attrs.get("forget_sentences") == "True"
        self._has_index = has_name(file, SENTENCE_TO_INDEX) and not is_without
        n_names = len(file) - self._has_index
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

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of one record."""
        shape: tuple[int, ...] = self._dataset(number).shape
        return shape

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
        dataset = linked(self._file, name)
        check_kind(dataset, "f", (1, 2) if self.pooled else (2, 3))
        if dataset.file.filename != self._file.filename:
            self._linked.keep(dataset.file)
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
