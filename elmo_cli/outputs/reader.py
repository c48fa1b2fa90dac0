"""Output files to activations: by number, by name or one after another, of either layout."""

import glob
import operator
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol, SupportsIndex, overload

import h5py
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError, InputError, load_extra, shown, system_reason
from elmo_cli.outputs.allennlp import SENTENCE_TO_INDEX, AllenNlpFile
from elmo_cli.outputs.formats import LAYOUTS
from elmo_cli.outputs.hdf5 import CHUNK_BYTES, DamagedError, check_count, damage_named
from elmo_cli.outputs.packed import PackedFile
from elmo_cli.outputs.parts import PartsFolder, is_parts_folder
from elmo_cli.text.lines import Record
from elmo_cli.text.records import Shard, shard_of

Array = NDArray[Any]

_SAME: Final = ("model_sha256", "state", "layers", "mix", "gamma", "pooling", "format")
"""Attributes in which files that are read as one agree."""
_SAME_OF_SHARDS: Final = ("input_records", "input_sha256")
"""Further ones in which the shards of an input agree."""
_ACTIVATIONS: Final = "HDF5 of `elmo embed` or a folder of `elmo distribute`"


class LayoutFile(Protocol):
    """An open file of one layout. Its records are numbered from 0."""

    n_records: int
    has_keys: bool
    has_sentences: bool
    is_ordered: bool
    """Whether records have the order of the input, and not that of their names."""

    def values(self, start: int, stop: int) -> list[Array]:
        """The values of some records from the first on, as many as are best read at once."""

    def known(self, start: int, stop: int) -> list[Record]:
        """All that is known of these records but their values."""

    def find(self, name: str) -> int | None:
        """The number of a record by its key, or where there are no keys, the last by its text."""


def open_activations(*paths: str | Path) -> "Activations":
    """Open files that `elmo embed` or `allennlp elmo` wrote, or a folder of `elmo distribute`.

    Several files are read as one: the shards of an input in the order of its lines, others one
    after another.

    Args:
        paths: files of HDF5, or patterns of their names such as `"part-*.hdf5"`; or folders of
            `elmo distribute`, also by URIs.

    Raises:
        InputError: a file is missing, or is none of these; or the files do not fit together.
    """
    return Activations(*paths)


class Activations:
    """The activations of a file, or of several as one, read when they are asked for.

        with open_activations("vectors.hdf5") as activations:
            activations[0]                  # the first line: float32, (L, T, W)
            activations[-10:]               # a list, the last ten
            activations["The cat sat ."]    # the line of that text, the last of equal ones
            for values in activations: ...  # all lines in their order

    Records, which are lines of text or sequences of FASTA, are numbered from 0. Where they have
    keys (the ids of FASTA), the keys take the place of sentences. Shapes are (L, T, W), or (T, W)
    where one layer was chosen or mixed, without the T where tokens were pooled.

    A context manager. It can be pickled and used after a fork: each process opens the files for
    itself.
    """

    def __init__(self, *paths: str | Path) -> None:
        self.paths = _matching(paths)
        """The files, shards in their order."""
        self._files: list[_File] = []
        try:
            self._files += map(_File, self.paths)
            shards = [shard_of(file.attributes) for file in self._files]
            are_shards = len(shards) > 1 and max(shard.total for shard in shards) > 1
            check_same(self, (*_SAME, *(_SAME_OF_SHARDS if are_shards else ())))
            if are_shards:
                check_shards(self)
                self._files.sort(key=lambda file: shard_of(file.attributes))
                self.paths = [file.path for file in self._files]
        except ElmoError:
            self.close()
            raise
        self._takes_turns = are_shards and all(file.layout_file.is_ordered for file in self._files)
        self._starts = [0, *accumulate(file.layout_file.n_records for file in self._files)]
        first = self._files[0]
        self.attributes = first.attributes
        """What the file says of its making; of several, the first one."""
        self.layout: str = self.attributes.get("layout", "allennlp")
        """`allennlp` or `packed`."""
        self.has_keys = first.layout_file.has_keys
        """Whether records have keys."""
        self.has_sentences = all(file.layout_file.has_sentences for file in self._files)
        """Whether the file knows sentences."""

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, which: SupportsIndex | str) -> Array: ...
    @overload
    def __getitem__(self, which: slice) -> list[Array]: ...
    def __getitem__(self, which: SupportsIndex | str | slice) -> Array | list[Array]:
        """Read a record by its number, key or sentence, or those of a slice, as a list.

        Raises:
            IndexError: there is no such number.
            KeyError: there is no such key or sentence.
        """
        if isinstance(which, str):
            which = self.number_of(which)
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1 and len(self._files) == 1:
                return [values for _, values in self._files[0].pairs(start, stop)]
            return [self[number] for number in range(start, stop, step)]
        number, place = self._located(which)
        with self._files[number].reading() as file:
            return file.values(place, place + 1)[0]

    def __iter__(self) -> Iterator[Array]:
        return (values for _, values in self._pairs())

    def __contains__(self, name: object) -> bool:
        """Whether there is a record of that key or sentence."""
        return isinstance(name, str) and self._find(name) is not None

    def number_of(self, name: str) -> int:
        """The number of a record by its key, or by its sentence where there are no keys.

        Of equal sentences, the number of the last one. The first call reads all names.

        Raises:
            KeyError: there is none.
        """
        number = self._find(name)
        if number is None:
            raise KeyError(name)
        return number

    def sentence(self, number: SupportsIndex) -> str | None:
        """The text of a record, if the file has it.

        AllenNLP's layout has that of the last of equal sentences only.
        """
        text = self._known(number).text
        is_whole = self.has_sentences and not isinstance(self._files[0].layout_file, AllenNlpFile)
        return text if text or is_whole else None

    def key(self, number: SupportsIndex) -> str | None:
        """The key of a record, if it has one."""
        return self._known(number).key

    def source(self, number: SupportsIndex) -> tuple[Path | str, int]:
        """The file that a record is in, and its number in that file's input, from 0."""
        file, place = self._located(number)
        return self.paths[file], shard_of(self._files[file].attributes).place(place)

    def tokens(self, number: SupportsIndex) -> list[str] | None:
        """The tokens of a record, one a vector; None without tokens, or where they are not known.

        White space separates them in the sentence, unless the file has them beside it.
        """
        return self._known(number).tokens or None

    def records(self) -> Iterator[tuple[Record, Array]]:
        """The records in their order: what is known of each, and its values.

        With little in memory, however many there are.
        """
        pairs = self._pairs(with_records=True)
        return ((record, values) for record, values in pairs if record is not None)

    @property
    def attributes_of_files(self) -> list[Mapping[str, Any]]:
        """What each file says of its making, in the order of `paths`."""
        return [file.attributes for file in self._files]

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "Activations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., "Activations"], tuple[Path | str, ...]]:
        return open_activations, tuple(self.paths)

    def _known(self, which: SupportsIndex) -> Record:
        """All that is known of a record but its values."""
        number, place = self._located(which)
        with self._files[number].reading() as file:
            return file.known(place, place + 1)[0]

    def _pairs(self, *, with_records: bool = False) -> Iterator[tuple[Record | None, Array]]:
        streams = [
            file.pairs(0, file.layout_file.n_records, with_records=with_records)
            for file in self._files
        ]
        for number in range(len(self)):
            yield next(streams[self._located(number)[0]])

    def _located(self, which: SupportsIndex) -> tuple[int, int]:
        """The file of a record, and the number of the record in it."""
        number = operator.index(which)
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"record {number}: {self.paths[0]} has {len(self):,}")
        if self._takes_turns:
            return place % len(self._files), place // len(self._files)
        file = bisect_right(self._starts, place) - 1
        return file, place - self._starts[file]

    def _find(self, name: str) -> int | None:
        found = []
        for number, opened in enumerate(self._files):
            with opened.reading() as file:
                place = file.find(name)
            if place is not None and self._takes_turns:
                found.append(place * len(self._files) + number)
            elif place is not None:
                found.append(self._starts[number] + place)
        return max(found, default=None)


class _File:
    """A file, open in this process."""

    def __init__(self, path: Path | str) -> None:
        self.path, self._is_open = path, True
        self._open()

    def close(self) -> None:
        self._is_open = False
        self._handle.close()

    @contextmanager
    def reading(self) -> Iterator[LayoutFile]:
        """Give the file; errors of HDF5 in the block name it as damaged.

        Raises:
            InputError: the file is damaged, or closed.
        """
        if not self._is_open:
            raise InputError(f"{self.path}: the file is closed; open it again")
        if self._process != os.getpid():  # HDF5 cannot share a file with the parent process
            self._open()
        with damage_named(self.path):
            yield self.layout_file

    def pairs(
        self, start: int, stop: int, *, with_records: bool = False
    ) -> Iterator[tuple[Record | None, Array]]:
        """Some records and their values; None for a record if not wanted."""
        while start < stop:
            with self.reading() as file:
                values = file.values(start, stop)
                end = start + len(values)
                records = file.known(start, end) if with_records else [None] * len(values)
            yield from zip(records, values, strict=True)
            start = end

    def _open(self) -> None:
        self._process = os.getpid()
        self._handle: h5py.File | PartsFolder
        self.layout_file: LayoutFile
        if is_parts_folder(str(self.path)):
            self._handle = self.layout_file = folder = PartsFolder(str(self.path))
            self.attributes = folder.attributes
            return
        self._handle = file = _open_hdf5(self.path)
        try:
            with damage_named(self.path):
                self.attributes = dict(file.attrs)
                if self.attributes.get("compression") == "zstd":
                    load_extra(f"{self.path}: zstd", "hdf5plugin", "zstd")
                if not _holds_activations(file):
                    names = ", ".join(sorted(file)[:5]) or "nothing"
                    raise InputError(
                        f"{self.path}: expected activations, as `elmo embed` writes them, found "
                        f"{names}"
                    )
                self.layout_file = _layout_file(file, self.attributes)
        except ElmoError:
            file.close()
            raise


def _matching(paths: tuple[str | Path, ...]) -> list[Path | str]:
    """The files of these names and patterns."""
    found: list[Path | str] = []
    for path in paths:
        if "://" in str(path):  # a `Path` would lose a slash
            found.append(str(path))
            continue
        is_pattern = not os.path.exists(path) and glob.has_magic(str(path))
        found += map(Path, sorted(glob.glob(str(path))) if is_pattern else [path])
    if not found:
        raise InputError(f"{' '.join(map(str, paths))}: no such file of activations")
    return found


def _open_hdf5(path: Path | str) -> h5py.File:
    """Open a file of activations; an `InputError` where it is missing, or something else."""
    if os.path.isdir(path):
        raise InputError(f"{path}: expected {_ACTIVATIONS}, found another folder")
    try:
        # HDF5 2 would keep 8 MB of each dataset.
        return h5py.File(path, "r", rdcc_nbytes=2 * CHUNK_BYTES)
    except FileNotFoundError:
        if os.path.exists(f"{path}.partial"):
            raise InputError(f"{path}: its run is not finished; give its command again") from None
        raise InputError(f"{path}: no such file of activations") from None
    except OSError as error:
        found = "something else" if "signature" in str(error) else system_reason(error)
        raise InputError(f"{path}: expected {_ACTIVATIONS}, found {found}") from None


def _holds_activations(file: h5py.File) -> bool:
    """Whether an HDF5 file is one of activations, of either layout."""
    if SENTENCE_TO_INDEX in file or "layers" in file.attrs or "0" in file:
        return True
    # AllenNLP's --use-sentence-keys, where a "/" makes groups. Weights begin with another shape.
    first = file.visititems(lambda _, item: item if isinstance(item, h5py.Dataset) else None)
    return first is not None and first.dtype.kind == "f" and first.ndim in (2, 3)


def _layout_file(file: h5py.File, attributes: dict[str, Any]) -> LayoutFile:
    """What reads a file, which holds as many records as it says."""
    layout = attributes.get("layout", "allennlp")
    if layout not in LAYOUTS:
        raise DamagedError(f"its layout is {shown(layout)!r}")
    found = PackedFile(file) if layout == "packed" else AllenNlpFile(file)
    if "records" in attributes and attributes.get("sentence_keys") != "True":
        text = str(attributes["records"])
        check_count(found.n_records, int(text) if text.isdecimal() else -1)
    return found


def check_same(activations: Activations, names: Iterable[str]) -> None:
    """Raise an `InputError` unless the files agree in these attributes."""
    first, *others = zip(activations.paths, activations.attributes_of_files, strict=True)
    for path, attributes in others:
        for name in names:
            there, here = first[1].get(name), attributes.get(name)
            if there != here:
                raise InputError(
                    f"{path} does not fit to {first[0]}: {name} is {shown(here)}, not "
                    f"{shown(there)}"
                )


def check_shards(activations: Activations) -> None:
    """Raise an `InputError` unless the files are all shards of an input."""
    shards = sorted(map(shard_of, activations.attributes_of_files))
    total = max(shard.total for shard in shards)
    if shards != [Shard(number, total) for number in range(1, total + 1)]:
        raise InputError(
            f"{activations.paths[0]}: expected all {total:,} shards, each once, found "
            f"{shown(', '.join(map(str, shards)))}"
        )
