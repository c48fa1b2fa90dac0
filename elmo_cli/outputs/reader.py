"""Reader of output files: activations by number, by name or in order, in any layout."""

import glob
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, SupportsIndex, overload

import h5py
from numpy.typing import NDArray

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import ElmoError, InputError, MissingInputError
from elmo_cli.errors.missing_files import missing_file
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, shown, system_reason
from elmo_cli.files.hdf5 import open_hdf5
from elmo_cli.options.shard import Shard, shard_of
from elmo_cli.options.tokenizer_names import recorded_tokenizer
from elmo_cli.outputs import hdf5
from elmo_cli.outputs.attributes import check_attributes, option_name, with_types
from elmo_cli.outputs.hdf5_allennlp import MAX_NESTED, SENTENCE_TO_INDEX, AllenNlpFile
from elmo_cli.outputs.hdf5_packed import PackedFile
from elmo_cli.outputs.parts import PartsFolder, is_parts_folder
from elmo_cli.records.record import Record

Array = NDArray[Any]

LayoutFile = AllenNlpFile | PackedFile | PartsFolder
"""Open file of one layout. Its records are numbered from 0, in the order of the input if it
`is_ordered`. `values` reads as many records from the first on as are best read together."""

SHARED_ATTRIBUTES: Final = (
    "model_sha256",
    "state",
    "layers",
    "mix",
    "gamma",
    "pooling",
    "format",
)
"""Attributes that must be equal in files that are read as one."""
_ACTIVATIONS: Final = "HDF5 of `elmo embed` or a folder of `elmo distribute`"
_UNKNOWN: Final = Record("", [])


class Activations:
    """Activations of a file, or of several files as one, read on access.

        with open_activations("vectors.hdf5") as activations:
            activations[0]                  # the first line: float32, (L, T, W)
            activations[-10:]               # a list, the last ten
            activations["The cat sat ."]    # the line of that text, the last of equal ones
            for values in activations: ...  # all lines in their order

    Records are numbered from 0. Records with ids are found by their ids, others by their
    sentences. Shapes are (L, T, W), or (T, W) if one layer was chosen or mixed, without the T if
    tokens were pooled.

    It is a context manager. It can be pickled and used after a fork: each process opens the files
    for itself.
    """

    def __init__(self, *paths: str | Path) -> None:
        self.files: list[ActivationsFile] = []
        try:
            self.files += map(ActivationsFile, matching_paths(paths))
            described = [(file.path, file.attributes) for file in self.files]
            check_same(described, SHARED_ATTRIBUTES)
            are_shards = len(self.files) > 1 and any(
                "shard" in f.attributes for f in self.files
            )
            if are_shards:
                check_same(described, ("input_records", "input_sha256"))
                check_shards(self.files)
                self.files.sort(key=lambda file: shard_of(file.attributes))
        except ElmoError:
            self.close()
            raise
        self.paths = [file.path for file in self.files]
        """Paths of the files; shards are in their order."""
        layouts = [file.layout_file for file in self.files]
        take_turns = are_shards and all(layout.is_ordered for layout in layouts)
        step, start = len(layouts) if take_turns else 1, 0
        for number, (file, layout) in enumerate(zip(self.files, layouts, strict=True)):
            first = number if take_turns else start
            file.numbers = range(first, first + step * layout.n_records, step)
            start += layout.n_records
        self.attributes = self.files[0].attributes
        """Attributes of the file; of the first one if there are several."""
        self.has_keys = layouts[0].has_keys
        """True if records have ids."""
        self.has_sentences = all(layout.has_sentences for layout in layouts)
        """True if the file contains sentences."""

    def __repr__(self) -> str:
        return (
            f"<Activations of {', '.join(map(str, self.paths))}, {len(self)} records>"
        )

    def __len__(self) -> int:
        return sum(len(file.numbers) for file in self.files)

    @overload
    def __getitem__(self, which: SupportsIndex | str) -> Array: ...
    @overload
    def __getitem__(self, which: slice) -> list[Array]: ...
    def __getitem__(self, which: SupportsIndex | str | slice) -> Array | list[Array]:
        """Read a record by its number, id or sentence, or the records of a slice as a list.

        Raises:
            IndexError: The number is out of range.
            KeyError: No record has this id or sentence.
        """
        if isinstance(which, str):
            which = self.number_of(which)
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1 and len(self.files) == 1:
                return [values for _, values in self.files[0].pairs(start, stop)]
            return [self[number] for number in range(start, stop, step)]
        file, index = self._located(which)
        with file.reading() as layout:
            return layout.values(index, index + 1)[0]

    def __iter__(self) -> Iterator[Array]:
        return (values for _, values in self._pairs())

    def __contains__(self, name: object) -> bool:
        """Return whether there is a record with that id or sentence."""
        return isinstance(name, str) and self._find(name) is not None

    def number_of(self, name: str) -> int:
        """Return the number of a record by its id, or by its sentence in a file without ids.

        The last of equal sentences counts. The first call reads all names.

        Raises:
            KeyError: No record has this name.
        """
        number = self._find(name)
        if number is None:
            raise KeyError(
                f"{self.files[0].path}: no record has the id or sentence {name!r}"
            )
        return number

    def sentence(self, number: SupportsIndex) -> str | None:
        """Return the text of a record, or None if the file does not contain it.

        AllenNLP's layout contains only the last of equal sentences.
        """
        text = self._record(number).text
        is_allennlp = isinstance(self.files[0].layout_file, AllenNlpFile)
        return text if text or (self.has_sentences and not is_allennlp) else None

    def key(self, number: SupportsIndex) -> str | None:
        """Return the id of a record, or None if it has no id."""
        return self._record(number).id

    def source(self, number: SupportsIndex) -> tuple[Path | str, int]:
        """Return the file of a record, and the record's number in the input, from 0."""
        file, index = self._located(number)
        return file.path, shard_of(file.attributes).number_in_input(index)

    def tokens(self, number: SupportsIndex) -> list[str] | None:
        """Return the tokens of a record, one per vector; None if it has none, or they are unknown.

        They are stored in the file, or separated by white space in the sentence.
        """
        return self._record(number).tokens or None

    def records(self) -> Iterator[tuple[Record, Array]]:
        """Yield all records in order with their activations, with little in memory."""
        return self._pairs(with_records=True)

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.handle.close()

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

    def _pairs(self, *, with_records: bool = False) -> Iterator[tuple[Record, Array]]:
        streams = {
            file: file.pairs(0, len(file.numbers), with_records=with_records)
            for file in self.files
        }
        for number in range(len(self)):
            yield next(streams[self._located(number)[0]])

    def _located(self, which: SupportsIndex) -> tuple["ActivationsFile", int]:
        index = operator.index(which)
        number = index + len(self) if index < 0 else index
        for file in self.files:
            if number in file.numbers:
                return file, file.numbers.index(number)
        raise IndexError(f"record {index}: {self.paths[0]} has {len(self):,}")

    def _find(self, name: str) -> int | None:
        numbers = []
        for file in self.files:
            with file.reading() as layout:
                index = layout.find(name)
            numbers += [] if index is None else [file.numbers[index]]
        return max(numbers, default=None)


def open_activations(*paths: str | Path) -> Activations:
    """Open files of activations, to be read by the number, id or sentence of a record.

    Args:
        paths: HDF5 files that `elmo embed` or `allennlp elmo` wrote, patterns of their names such
            as `"part-*.hdf5"`, or folders of `elmo distribute`, also as URIs. Several are read as
            one: the shards of an input in the order of its lines, other files one after another.

    Raises:
        InputError: A file is missing or contains no activations, or the files cannot be read
            together.
    """
    return Activations(*paths)


class ActivationsFile:
    """One file, opened in this process."""

    numbers: range  # numbers of its records among the records of all files

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._open()

    @contextmanager
    def reading(self) -> Iterator[LayoutFile]:
        """Open the file for a block of code, in which errors of HDF5 name it as damaged."""
        if not self.handle:
            raise InputError(f"{self.path}: the file is closed. Open it again.")
        if (
            self._process != os.getpid()
        ):  # HDF5 cannot share a file with the parent process.
            self._open()
        with _damage_named(self.path):
            yield self.layout_file

    def pairs(
        self, start: int, stop: int, *, with_records: bool = False
    ) -> Iterator[tuple[Record, Array]]:
        """Yield records with their activations. The records are empty unless `with_records`."""
        while start < stop:
            with self.reading() as layout:
                values = layout.values(start, stop)
                end = start + len(values)
                records = (
                    layout.records(start, end)
                    if with_records
                    else [_UNKNOWN] * len(values)
                )
            yield from zip(records, values, strict=True)
            start = end

    def _open(self) -> None:
        self._process = os.getpid()
        self.handle: h5py.File | PartsFolder
        self.layout_file: LayoutFile
        self.attributes: dict[str, Any]
        if is_parts_folder(str(self.path)):
            self.handle = self.layout_file = PartsFolder(str(self.path))
            self.attributes = with_types(self.layout_file.attributes)
            return
        self.handle = file = _open_hdf5(self.path)
        try:
            with _damage_named(self.path):
                try:
                    attributes = dict(file.attrs)
                except (KeyError, RuntimeError, TypeError, ValueError) as error:
                    raise hdf5.DamagedError(
                        f"its attributes: {first_line(error)}"
                    ) from None
                check_attributes(attributes, self.path)
                self.attributes = with_types(attributes)
                if self.attributes.get("compression") == "zstd":
                    load_extra(f"{self.path}: zstd", "hdf5plugin", "zstd")
                if not _holds_activations(file):
                    names = ", ".join(sorted(file)[:5]) or "nothing"
                    problem = f"expected activations, as `elmo embed` writes them, found {names}"
                    raise InputError(f"{self.path}: {problem}")
                is_packed = self.attributes.get("layout") == "packed"
                self.layout_file = PackedFile(file) if is_packed else AllenNlpFile(file)
                if (
                    "records" in self.attributes
                    and self.attributes.get("sentence_keys") != "True"
                ):
                    hdf5.check_count(
                        self.layout_file.n_records, int(self.attributes["records"])
                    )
        except ElmoError:
            file.close()
            raise


@contextmanager
def _damage_named(path: str | Path) -> Iterator[None]:
    """Turn errors of HDF5 and of our checks, but no bugs, into an `InputError` of the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: the file is damaged: {first_line(error)}") from None


def matching_paths(paths: tuple[str | Path, ...]) -> list[Path | str]:
    """Return the paths, each pattern replaced by the sorted paths that match it."""
    matching: list[Path | str] = []
    for path in paths:
        check_type("path", path, (str, os.PathLike), "a path")
        if "://" in str(path):  # A `Path` would lose a slash.
            matching.append(str(path))
            continue
        is_pattern = not os.path.exists(path) and glob.has_magic(str(path))
        matching += map(Path, sorted(glob.glob(str(path))) if is_pattern else [path])
    if not matching:
        raise MissingInputError(f"{' '.join(map(str, paths))}: no such file.")
    return matching


def _open_hdf5(path: Path | str) -> h5py.File:
    if os.path.isdir(path):
        raise InputError(f"{path}: expected {_ACTIVATIONS}, found another folder")
    try:
        # HDF5 2 would cache 8 MB per dataset.
        return open_hdf5(path, rdcc_nbytes=2 * hdf5.CHUNK_BYTES)
    except FileNotFoundError:
        if os.path.exists(f"{path}.partial"):
            problem = "the run is not finished. Run its command again."
            raise MissingInputError(f"{path}: {problem}") from None
        raise missing_file(path, InputError) from None
    except OSError as error:
        if "signature" in str(error):
            remedy = f"If it is a text: `elmo embed {path} NEW.hdf5`."
            raise InputError(f"{path}: expected {_ACTIVATIONS}. {remedy}") from None
        raise InputError(f"{path}: cannot be read: {system_reason(error)}.") from None


def _holds_activations(file: h5py.File) -> bool:
    if SENTENCE_TO_INDEX in file or "layers" in file.attrs or "0" in file:
        return True

    # AllenNLP's --use-sentence-keys: a "/" makes groups. Weights begin with another shape.
    def dataset_or_deep(name: str, item: h5py.Dataset | h5py.Group) -> Any:
        return (
            item
            if isinstance(item, h5py.Dataset) or name.count("/") > MAX_NESTED
            else None
        )

    first = file.visititems(dataset_or_deep)
    return (
        isinstance(first, h5py.Dataset)
        and first.dtype.kind == "f"
        and first.ndim in (2, 3)
    )


def with_tokenizer(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with the full name of the tokenizer, which is whitespace by default."""
    return {**attributes, "tokenizer": recorded_tokenizer(attributes) or "whitespace"}


def check_same(
    described: Sequence[tuple[object, Mapping[str, Any]]], names: Iterable[str]
) -> None:
    """Raise an `InputError` unless files, each a path and its attributes, agree in `names`."""
    (first_path, first), *others = [
        (path, with_tokenizer(each)) for path, each in described
    ]
    for path, attributes in others:
        for name in names:
            there, here = first.get(name, "none"), attributes.get(name, "none")
            if there != here:
                how = (
                    f"--tokenizer {there}"
                    if name == "tokenizer"
                    else f"options of {first_path}"
                )
                raise InputError(
                    f"{first_path} and {path} cannot be read together: {option_name(name)} is "
                    f"{shown(there)} in {first_path} and {shown(here)} in {path}. "
                    f"Write {path} with {how}."
                )


def check_shards(files: Sequence[ActivationsFile]) -> None:
    """Raise an `InputError` unless the files are all shards of one input, each once."""
    shards = sorted(shard_of(file.attributes) for file in files)
    total = max(shard.total for shard in shards)
    if shards != [Shard(number, total) for number in range(1, total + 1)]:
        raise InputError(
            f"{files[0].path}: expected all {total:,} shards, each once, found "
            f"{shown(', '.join(map(str, shards)))}"
        )
