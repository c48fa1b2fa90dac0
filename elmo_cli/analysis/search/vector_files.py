"""Open files with the vectors of words in their sentences."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from elmo_cli.analysis.search.vector_sources import (
    Vectors,
    VectorSource,
    activations_source,
    is_table,
    table_source,
)
from elmo_cli.callbacks import OnProgress, ignore
from elmo_cli.errors.checks import check_function, check_path, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.options.layers import Layers
from elmo_cli.outputs.comparison import SHARED_ATTRIBUTES, check_same
from elmo_cli.outputs.reader import Activations, matching_paths


@dataclass(eq=False, repr=False)
class VectorFiles(AbstractContextManager["VectorFiles"]):
    """Open files with vectors of tokens, from `open_occurrences`, in their order."""

    sources: list[VectorSource]
    on_progress: OnProgress = ignore

    def __repr__(self) -> str:
        return f"VectorFiles({', '.join(repr(str(path)) for path in self.paths)})"

    @property
    def paths(self) -> list[Path | str]:
        """Paths of the files."""
        return [path for source in self.sources for path in source.paths]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the first file that has any."""
        for source in self.sources:
            if source.attributes:
                return source.attributes
        return {}

    @property
    def words(self) -> list[str]:
        """Target words that the files name before they are read."""
        words = [word for source in self.sources for word in source.words]
        return list(dict.fromkeys(words))

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        """Yield the records of all files that have tokens.

        They hold the mean of `layers`, such as "1,2", 2 or [1, 2]. None means all
        layers except the token layer.

        Raises:
            InputError: A file is damaged.
            SettingsError: A file lacks one of the layers.
        """
        for source in self.sources:
            for vectors in source.read(layers):
                self.on_progress(1)
                yield vectors

    def has_token_layer(self, layers: Layers | None = None) -> bool:
        """Return whether a file has vectors with the token layer.

        Such vectors find words of similar spelling rather than of similar meaning.
        """
        return any(source.has_token_layer(layers) for source in self.sources)

    def check_pooling(self, *, pooled: bool) -> None:
        """Raise an `InputError` unless all files have one vector per sentence.

        If not `pooled`, unless all have one per token.
        """
        for source in self.sources:
            pooling = source.attributes.get("pooling")
            if pooled and pooling is None:
                raise InputError(
                    f"{source.path}: the file has one vector per token",
                    remedy="Embed with {--pooling mean}.",
                    shell_remedy="`elmo embed --pooling mean` writes one per sentence.",
                )
            if not pooled and pooling is not None:
                raise InputError(
                    "{path}: the file has one vector per sentence "
                    "({--pooling} {pooling})",
                    remedy="Embed without {--pooling}.",
                    shell_remedy="Use `elmo neighbours --sentence`, or embed "
                    "without --pooling.",
                    path=source.path,
                    pooling=pooling,
                )

    def check_other_words(self) -> None:
        """Raise a `SettingsError` for `other_words` if a file has no words to exclude.

        A file with one vector per sentence has none.
        """
        for source in self.sources:
            if "pooling" in source.attributes:
                raise SettingsError(
                    "{--other-words True}: requires one vector per token, but {path} "
                    "has one per sentence",
                    remedy="Remove {--other-words True}.",
                    path=source.path,
                )

    def close(self) -> None:
        """Close the files."""
        for source in self.sources:
            source.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_occurrences(
    *paths: str | Path, on_progress: OnProgress | None = None
) -> VectorFiles:
    """Open files with vectors of tokens, to read each record with its sentence.

        with open_occurrences("old.parquet", "new.hdf5") as files:
            for vectors in files.read(): ...

    `read_occurrences` returns matrices without sentences, to compare two files.

    Args:
        paths: HDF5 files of `elmo embed`, HDF5 and Parquet of `elmo occurrences`,
            folders of `elmo distribute`, or patterns of such names. The shards of an
            input are read as one file.
        on_progress: Called with the number of records that were read since the last
            call.

    Returns:
        The files, for functions such as `find_neighbours`. Close them, or use `with`.

    Raises:
        InputError: A file is missing or of another kind, or the files do not fit
            together.
    """
    check_function("on_progress", on_progress)
    files = VectorFiles([], on_progress or ignore)
    with ExitStack() as close_after_error:
        close_after_error.callback(files.close)
        for are_tables, group in groupby(matching_paths(paths), is_table):
            if are_tables:
                files.sources += [table_source(path) for path in group]
            else:
                files.sources += _open_activations(list(group))
        _check_made_alike(files.sources)
        close_after_error.pop_all()
    return files


def _open_activations(paths: list[Path | str]) -> list[VectorSource]:
    """Open HDF5 files and folders of parts; the shards of an input as one source."""
    with ExitStack() as close_after_error:
        files = [close_after_error.enter_context(Activations(path)) for path in paths]
        are_shards = any("shard" in file.attributes for file in files)
        if len(files) == 1 or not are_shards:
            sources = [activations_source(file) for file in files]
            close_after_error.pop_all()
            return sources
    # The files were closed. `Activations` opens them again, as one.
    return [activations_source(Activations(*paths))]


def _check_made_alike(sources: list[VectorSource]) -> None:
    """Raise an `InputError` if sources with attributes were made in different ways."""
    described = [
        (source.path, source.attributes) for source in sources if source.attributes
    ]
    if described:
        check_same(described, SHARED_ATTRIBUTES)


def check_files_come_first(files: object, other: object, name: str) -> None:
    """Raise an `InputError` for files in the place of another argument.

    The arguments are swapped, as on the command line. `name` is a word for the other.
    """
    if not _is_existing_path(other) or isinstance(files, (VectorFiles, Activations)):
        return
    given = files if isinstance(files, (list, tuple)) else [files]
    if all(_is_existing_path(each) for each in given):
        return
    raise InputError(
        f"{other}: a file in the place of {name}",
        remedy=f"Give the files first, then {name}.",
    )


def _is_existing_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike)) and os.path.exists(value)


@contextmanager
def opened_files(
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
) -> Iterator[VectorFiles]:
    """Return open files as `VectorFiles`. Paths are opened, and closed at the end."""
    if isinstance(files, VectorFiles):
        yield files
    elif isinstance(files, Activations):
        yield VectorFiles([activations_source(files)])
    elif isinstance(files, (str, Path)):
        with open_occurrences(files) as opened:
            yield opened
    else:
        expected = "a path, a list of paths, or the result of open_occurrences or "
        expected += "open_activations"
        check_type("files", files, (list, tuple), expected)
        if not files:
            raise InputError("files: expected at least one file, found none")
        for index, path in enumerate(files):
            check_path(f"files[{index}]", path)
        with open_occurrences(*files) as opened:
            yield opened
