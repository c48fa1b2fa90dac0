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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

import h5py
import numpy as np
from h5py import h5d, h5o, h5p, h5s, h5t
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.outputs.allennlp_file import SENTENCE_TO_INDEX
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.compression import CHUNK_BYTES, dataset_settings
from elmo_cli.outputs.damage import check_count, has_name
from elmo_cli.outputs.heap_string import MOST_BYTES, create_empty_string, write_string
from elmo_cli.outputs.metadata_cache import MetadataCache, keep_little
from elmo_cli.outputs.root_names import (
    PARTS,
    DatasetAddresses,
    Entry,
    part_of_number,
    write_names,
)
from elmo_cli.outputs.sentence_index import SentenceIndex
from elmo_cli.text.lines import Record
from elmo_cli.text.records import WHOLE, shard_of

logger = logging.getLogger(__name__)

LONG_BYTES: Final = 1 << 22
"""A string from here on is written in pieces; HDF5 holds three copies of one."""
NAMES_BY_HDF5: Final = 1 << 16
"""Numbers from here on become names when all datasets are there; HDF5 holds two copies of them."""


class AllenNlpLayout:
    """Writes it; see `form.Layout`."""

    def __init__(
        self, compression: str | None = None, *, forget_sentences: bool, use_sentence_keys: bool
    ) -> None:
        self._settings = dataset_settings(compression)
        self._use_sentence_keys = use_sentence_keys
        self._has_index = not (forget_sentences or use_sentence_keys)
        self._index: SentenceIndex | None = None
        self._file: h5py.File
        self._cache: MetadataCache
        self._sink: CheckpointedFile
        self._shard = WHOLE
        self._is_numbered = False
        self._n_records = 0
        self._part: tuple[str, h5py.Group] | None = None  # where the last dataset is

    def open(self, sink: CheckpointedFile, attributes: Mapping[str, str], n_records: int) -> None:
        """Begin the file, or go on with it."""
        self._file = h5py.File(sink, "r+" if sink.state else "w")
        self._cache = MetadataCache(self._file)
        self._is_numbered = not self._use_sentence_keys and attributes.get("format") != "fasta"
        if sink.state and not self._use_sentence_keys:  # where blank lines have no dataset
            check_count(self._count_records(), n_records)
        self._file.attrs.update(attributes)
        self._n_records = n_records
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
        self._n_records = number + 1
        key = self._name(record.key or number)
        if self._use_sentence_keys:
            key = self._sentence_key(number, record.text)
        if key:
            group = self._group(number)
            if self._settings and values.size:  # no chunk holds nothing
                group.create_dataset(key, data=values, chunks=_chunk(values), **self._settings)
            else:
                _create(group, key, values)
            if record.attributes:
                group[key].attrs.update(record.attributes)
            self._note(record, number)

    def flush(self) -> None:
        """Pass on to the sink what HDF5 holds."""
        self._file.flush()

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Add `sentence_to_index`, and the names that are still to come."""
        self._file.attrs.update(attributes)
        with ExitStack() as stack:
            text, reference = None, 0
            if self._has_index:
                if has_name(self._file, SENTENCE_TO_INDEX):  # of a run killed as it finished
                    del self._file[SENTENCE_TO_INDEX]
                text = stack.enter_context((self._index or SentenceIndex()).write_json(self._name))
                reference = self._create_index(text)
            entries = self._entries(stack) if self._has_parts() else None
            self.close()
            if text and reference:
                write_string(self._sink, reference, text)
            if entries:
                write_names(self._sink, entries)

    def _create_index(self, text: IO[bytes]) -> int:
        """Make the dataset of `sentence_to_index`.

        Returns:
            Where the reference to its value is, if that is long and has to be written later.
        """
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
            return create_empty_string(self._file, SENTENCE_TO_INDEX)
        return 0

    def _entries(self, stack: ExitStack) -> Callable[[], Iterator[Entry]]:
        """What gives all names of the root, in their order."""
        names = (PARTS.encode(), SENTENCE_TO_INDEX.encode())
        addresses = DatasetAddresses(self._file, self._shard, self._n_records, names)
        stack.enter_context(closing(addresses))
        others: list[Entry] = []
        if has_name(self._file, SENTENCE_TO_INDEX):
            address = h5o.get_info(self._file[SENTENCE_TO_INDEX].id).addr
            others.append((SENTENCE_TO_INDEX.encode(), address))  # letters come after digits
        return lambda: chain(addresses.entries(), others)

    def close(self) -> None:
        """Let go of the sink."""
        self._file.close()
        if self._index is not None:
            self._index.close()

    def _count_records(self) -> int:
        """How many records the file has, where each has a dataset."""
        n_names = len(self._file)  # first: to count names, HDF5 drops them
        n_names -= self._has_index and has_name(self._file, SENTENCE_TO_INDEX)
        if self._has_parts():
            n_names += sum(map(len, self._file[PARTS].values())) - 1
        return n_names

    def _has_parts(self) -> bool:
        """Whether there are datasets whose names are still to come."""
        return self._is_numbered and has_name(self._file, PARTS)

    def _group(self, number: int) -> h5py.Group:
        """Where the dataset of a record gets its name, for the time being."""
        if number < NAMES_BY_HDF5 or not self._is_numbered:
            self._cache.use()
            return self._file
        name = part_of_number(number)
        if self._part is None:
            keep_little(self._file)
        if self._part is None or self._part[0] != name:
            self._part = name, self._file.require_group(name)
        return self._part[1]

    def _name(self, key: str | int) -> str:
        """The name of the dataset of a record, by its key or its number."""
        return key if isinstance(key, str) else str(self._shard.place(key))

    def link(self, number: int, record: Record, source: Path) -> None:
        """Add a link to the dataset of a record in another file of this layout."""
        name = self._name(record.key or number)
        self._cache.use()
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


def _create(group: h5py.Group, name: str, values: NDArray[Any]) -> None:
    """What `group.create_dataset(name, data=values)` does, in two thirds of its time."""
    link = name.encode()
    if b"/" in link.lstrip(b"/"):
        parents, link = link.rsplit(b"/", 1)
        group = group.require_group(parents)
    settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_obj_track_times(False)  # the same file again, byte for byte
    kind, space = h5t.py_create(values.dtype), h5s.create_simple(values.shape)
    dataset = h5d.create(group.id, link, kind, space, settings)
    dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))


def _chunk(values: NDArray[Any]) -> tuple[int, ...]:
    """Some tokens of a record, about as many bytes as HDF5 keeps at hand."""
    if values.ndim == 1:
        return values.shape
    n_rows = max(1, CHUNK_BYTES * values.shape[-2] // values.nbytes)
    return (*values.shape[:-2], min(n_rows, values.shape[-2]), values.shape[-1])
