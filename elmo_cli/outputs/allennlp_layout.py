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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.outputs.allennlp_file import SENTENCE_TO_INDEX
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.compression import CHUNK_BYTES, dataset_settings
from elmo_cli.outputs.damage import check_count, has_name
from elmo_cli.outputs.heap_string import MOST_BYTES, create_empty_string, write_string
from elmo_cli.outputs.metadata_cache import MetadataCache
from elmo_cli.outputs.sentence_index import SentenceIndex
from elmo_cli.shard import WHOLE, shard_of
from elmo_cli.text import Record

logger = logging.getLogger(__name__)

LONG_BYTES: Final = 1 << 22
"""A string from here on is written in pieces; HDF5 holds three copies of one."""


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

    def open(self, sink: CheckpointedFile, attributes: Mapping[str, str], n_records: int) -> None:
        """Begin the file, or go on with it."""
        self._file = h5py.File(sink, "r+" if sink.state else "w")
        self._cache = MetadataCache(self._file)
        if sink.state and not self._use_sentence_keys:  # where blank lines have no dataset
            n_names = len(self._file)  # first: to count names, HDF5 drops them
            has_index = self._has_index and has_name(self._file, SENTENCE_TO_INDEX)
            check_count(n_names - has_index, n_records)
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
            self._cache.use()
            if self._settings and values.size:  # no chunk holds nothing
                chunk = _chunk(values)
                self._file.create_dataset(key, data=values, chunks=chunk, **self._settings)
            else:
                _create(self._file, key, values)
            if record.attributes:
                self._file[key].attrs.update(record.attributes)
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


def _create(file: h5py.File, name: str, values: NDArray[Any]) -> None:
    """What `file.create_dataset(name, data=values)` does, in two thirds of its time."""
    group, link = file, name.encode()
    if b"/" in link.lstrip(b"/"):
        parents, link = link.rsplit(b"/", 1)
        group = file.require_group(parents)
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
