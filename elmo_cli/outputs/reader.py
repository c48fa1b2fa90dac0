"""Reader of output files: activations by number, by name or in order, in any layout."""

import glob
import operator
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, overload

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import ElmoError, InputError, MissingInputError
from elmo_cli.errors.wording import counted, kind_of, shown
from elmo_cli.options.shard import Shard, shard_of
from elmo_cli.outputs.activations_file import ActivationsFile
from elmo_cli.outputs.comparison import SHARED_ATTRIBUTES, check_same
from elmo_cli.records.record import Record
from elmo_cli.text.alignment import CharacterSpan, locate_tokens


class Activations:
    """Activations of a file, or of several files as one, read on access.

        with open_activations("vectors.hdf5") as activations:
            activations[0]                  # the first line: float32, (L, T, W)
            activations[-10:]               # a list, the last ten
            activations["The cat sat ."]    # the last line of that text
            for values in activations: ...  # all lines in their order

    Records are counted from 0. Records with ids are found by their ids, others by
    their sentences. Shapes are (L, T, W), or (T, W) if one layer was chosen or mixed,
    without the T if tokens were pooled.

    It is a context manager. It can be pickled and used after a fork: each process opens
    the files for itself.

    Raises:
        InputError: A file is damaged, when it is opened or read.
        IndexError: An index is out of range, in any method.
        KeyError: No record has this id or sentence.
    """

    def __init__(self, *paths: str | Path) -> None:
        self._files: list[ActivationsFile] = []
        self._indices: list[range]
        """Indices of the records of each file among those of all files."""
        try:
            for path in matching_paths(paths):
                self._files.append(ActivationsFile(path))
            are_shards = _check_files(self._files)
        except ElmoError:
            self.close()
            raise
        if are_shards:
            self._files.sort(key=lambda file: shard_of(file.attributes))
        if are_shards and all(file.layout.is_ordered for file in self._files):
            self._indices = _indices_in_turns(self._files)
        else:
            self._indices = _indices_one_after_another(self._files)

    @property
    def paths(self) -> list[Path | str]:
        """Paths of the files; shards are in their order."""
        return [file.path for file in self._files]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the file; of the first one if there are several."""
        return self._files[0].attributes

    @property
    def has_ids(self) -> bool:
        """True if all records have ids."""
        return all(file.layout.has_ids for file in self._files)

    @cached_property
    def has_sentences(self) -> bool:
        """True if the file contains sentences."""
        return all(file.layout.has_sentences for file in self._files)

    def __repr__(self) -> str:
        paths = ", ".join(map(str, self.paths))
        return f"<Activations of {paths}, {len(self)} records>"

    def __len__(self) -> int:
        return sum(map(len, self._indices))

    @overload
    def __getitem__(self, which: SupportsIndex | str) -> AnyArray: ...
    @overload
    def __getitem__(self, which: slice) -> list[AnyArray]: ...
    def __getitem__(
        self, which: SupportsIndex | str | slice
    ) -> AnyArray | list[AnyArray]:
        """Read a record by its index, id or sentence, or the records of a slice.

        Raises:
            IndexError: The index is out of range.
            KeyError: No record has this id or sentence.
        """
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1 and len(self._files) == 1:
                return [values for _, values in self._files[0].pairs(start, stop)]
            return [self[index] for index in range(start, stop, step)]
        if isinstance(which, str):
            which = self.index_of(which)
        file, index = self._located(which)
        with file.reading() as layout:
            return layout.values(index, index + 1)[0]

    def __iter__(self) -> Iterator[AnyArray]:
        return (values for _, values in self._pairs())

    def __contains__(self, name: object) -> bool:
        """Return whether there is a record with that id or sentence."""
        return isinstance(name, str) and self._find(name) is not None

    def index_of(self, name: str) -> int:
        """Return the index of a record by its id, or without ids by its sentence.

        If a sentence is repeated, this is its last record. The first call reads all
        names.

        Raises:
            KeyError: No record has this name.
        """
        index = self._find(name)
        if index is None:
            raise KeyError(
                f"{self.paths[0]}: no record has the id or sentence {name!r}"
            )
        return index

    def sentence(self, index: SupportsIndex) -> str | None:
        """Return the text of a record, or None if the file does not contain it.

        In AllenNLP's layout, only the last record of a repeated sentence has its text.
        """
        file, _ = self._located(index)
        return self._sentence_of(self._record(index), file)

    def id(self, index: SupportsIndex) -> str | None:
        """Return the id of a record, or None if it has no id."""
        return self._record(index).id

    def source(self, index: SupportsIndex) -> tuple[Path | str, int]:
        """Return the file of a record, and the record's index in the input, from 0."""
        file, index_in_file = self._located(index)
        shard = shard_of(file.attributes)
        return file.path, shard.index_in_input(index_in_file)

    def tokens(self, index: SupportsIndex) -> list[str] | None:
        """Return the tokens of a record, one per vector.

        They are stored in the file, or separated by white space in the sentence. None
        if the file has neither, or the record is empty.
        """
        return self._record(index).tokens or None

    def offsets(self, index: SupportsIndex) -> list[CharacterSpan] | None:
        """Return the characters of each token of a record in its sentence.

        `sentence(index)[start:end]` are those of a token. It is None if the file does
        not contain the sentence or the tokens.

        Raises:
            InputError: The tokens are not those of the sentence.
        """
        record = self._record(index)
        file, _ = self._located(index)
        sentence = self._sentence_of(record, file)
        if sentence is None or not record.tokens:
            return None
        return locate_tokens(sentence, record.tokens)

    def _sentence_of(self, record: Record, file: ActivationsFile) -> str | None:
        if record.text:
            return record.text
        has_each = file.layout.has_sentences and file.layout.has_each_sentence
        return record.text if has_each else None

    def records(self) -> Iterator[tuple[Record, AnyArray]]:
        """Yield all records in order with their activations, with little in memory."""
        return self._pairs(with_records=True)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "Activations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type["Activations"], tuple[Path | str, ...]]:
        return Activations, tuple(self.paths)

    def _record(self, which: SupportsIndex) -> Record:
        file, index = self._located(which)
        with file.reading() as layout:
            return layout.records(index, index + 1)[0]

    def _pairs(
        self, *, with_records: bool = False
    ) -> Iterator[tuple[Record, AnyArray]]:
        streams = {
            file: file.pairs(0, file.layout.n_records, with_records=with_records)
            for file in self._files
        }
        for index in range(len(self)):
            file, _ = self._located(index)
            yield next(streams[file])

    def _located(self, which: SupportsIndex) -> tuple[ActivationsFile, int]:
        """Return the file of a record by its index, and its index in the file."""
        try:
            given = operator.index(which)
        except TypeError:
            # Sequences of Python raise it too.
            found = kind_of(which)
            problem = f"index: expected a whole number, found {found}"
            if isinstance(which, str):
                problem += ". Use index_of() for a name."
            raise TypeError(problem) from None
        index = given + len(self) if given < 0 else given
        for file, indices in zip(self._files, self._indices, strict=True):
            if index in indices:
                return file, indices.index(index)
        n_records = counted(len(self), "record")
        bounds = f", 0 to {len(self) - 1:,}" if len(self) else ""
        raise IndexError(f"record {given}: {self.paths[0]} has {n_records}{bounds}")

    def _find(self, name: str) -> int | None:
        """Return the index of a record by its id or sentence, if there is one."""
        found = []
        for file, indices in zip(self._files, self._indices, strict=True):
            with file.reading() as layout:
                index_in_file = layout.find(name)
            if index_in_file is not None:
                found.append(indices[index_in_file])
        return max(found, default=None)


def open_activations(*paths: str | Path) -> Activations:
    """Open files of activations, to read records by index, id or sentence.

        with open_activations("vectors.hdf5") as activations:
            print(activations[0].shape)  # of the first line: layers, tokens, W

    Args:
        paths: HDF5 files that `elmo embed` or `allennlp elmo` wrote, patterns of their
            names such as `"part-*.hdf5"`, or folders or URIs of `elmo distribute`.
            Several are read as one: the shards of an input in the order of its lines,
            other files one after another.

    Returns:
        The activations, which are read on access. Close them, or use `with`.

    Raises:
        InputError: A file is missing or contains no activations, or the files cannot be
            read together.
    """
    return Activations(*paths)


def matching_paths(paths: tuple[str | Path, ...]) -> list[Path | str]:
    """Return the paths, each pattern replaced by the sorted paths that match it."""
    if not paths:
        raise InputError("paths: expected at least one file, found none")
    matching: list[Path | str] = []
    for index, path in enumerate(paths):
        name = "path" if len(paths) == 1 else f"paths[{index}]"
        remedy = None
        if isinstance(path, (list, tuple)):
            remedy = "Give each path as an argument of its own, as in f(*paths)."
        check_type(name, path, (str, os.PathLike), "a path", remedy)
        if "://" in str(path):  # A `Path` would lose a slash.
            matching.append(str(path))
        elif not os.path.exists(path) and glob.has_magic(str(path)):
            matching += map(Path, sorted(glob.glob(str(path))))
        else:
            matching.append(Path(path))
    if not matching:
        raise MissingInputError(f"{' '.join(map(str, paths))}: no such file")
    return matching


def _check_files(files: Sequence[ActivationsFile]) -> bool:
    """Return whether files are shards; raise an `InputError` if they do not fit."""
    described = [(file.path, file.attributes) for file in files]
    check_same(described, SHARED_ATTRIBUTES)
    are_shards = len(files) > 1 and any("shard" in file.attributes for file in files)
    if are_shards:
        names = ["format", "input_records", "input_sha256"]
        if all("records_sha256" in file.attributes for file in files):
            names.append("records_sha256")
        check_same(described, names)
        _check_shards(files)
    return are_shards


def _check_shards(files: Sequence[ActivationsFile]) -> None:
    """Raise an `InputError` unless the files are all shards of one input, each once."""
    shards = sorted(shard_of(file.attributes) for file in files)
    total = max(shard.total for shard in shards)
    if shards != [Shard(number, total) for number in range(1, total + 1)]:
        raise InputError(
            f"{files[0].path}: expected all {total:,} shards, each once, found "
            f"{shown(', '.join(map(str, shards)))}"
        )


def _indices_in_turns(files: Sequence[ActivationsFile]) -> list[range]:
    """Return indices that alternate between shards, as the lines of their input do."""
    step = len(files)
    return [
        range(first, first + step * file.layout.n_records, step)
        for first, file in enumerate(files)
    ]


def _indices_one_after_another(files: Sequence[ActivationsFile]) -> list[range]:
    """Return indices that follow those of the files before."""
    indices = []
    start = 0
    for file in files:
        end = start + file.layout.n_records
        indices.append(range(start, end))
        start = end
    return indices
