"""Occurrences of words in files of vectors: tokens with their sentences and vectors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.cosine import Occurrence
from elmo_cli.analysis.sources import (
    Source,
    check_agreement,
    check_pooling,
    forms_of,
    layer_numbers,
    layer_rows,
    mean_of,
    paths_of,
)
from elmo_cli.analysis.target_words import target_positions
from elmo_cli.analysis.usage_files import UsagesFile, is_usages_file, open_usages
from elmo_cli.errors import ElmoError, InputError
from elmo_cli.outputs.reader import Activations, matching_paths
from elmo_cli.text.records import Record

Array = NDArray[Any]
OnProgress = Callable[[int], object]

_SHARED: Final = ("model_sha256", "state", "layers", "mix", "gamma", "pooling", "format")
"""Attributes that must be equal in files that are read together, if the files have attributes."""


class Location(NamedTuple):
    """Location of a sentence: its file, and its number and id in the file."""

    path: Path | str
    number: int
    """Number of the line or record in the text that was embedded, from 1."""
    id: str | None

    @property
    def name(self) -> str:
        """Id of the record, or its number if it has no id."""
        return self.id or str(self.number)


class Vectors(NamedTuple):
    """Record of a file with its vectors."""

    source: Source
    record_number: int
    """Number of the record in the source, from 0."""
    record: Record
    positions: Sequence[int]
    """Positions of the tokens that have a vector: of all tokens, or of target words."""
    vectors: Array
    """float, shape (n, W), or (1, W) if all tokens are pooled."""
    forms: Mapping[str, str]
    """Target word of each form. A token that is no form is its own word."""

    @property
    def location(self) -> Location:
        """Location of the record."""
        if isinstance(self.source, UsagesFile):
            return Location(self.source.path, self.record_number + 1, self.record.id)
        path, number = self.source.source(self.record_number)
        return Location(path, number + 1, self.record.id)

    def word(self, position: int) -> str:
        """Return the target word of the token at a position."""
        token = self.record.tokens[position]
        return self.forms.get(token, token)


class EmbeddedOccurrence(NamedTuple):
    """Word in a sentence of a file, with its vector."""

    occurrence: Occurrence
    location: Location
    vector: Array
    """float, shape (W,)."""


class VectorFiles:
    """Open files with vectors of tokens, in the order of `paths`.

        with open_vectors("old.parquet", "new.hdf5") as files:
            for vectors in files.read(): ...

    Args:
        paths: HDF5 files of `elmo embed`, files of `elmo usages` in any format, folders of `elmo
            distribute`, or patterns of such names. The shards of an input are read as one file.
        on_progress: Called with the number of records that were read since the last call.

    Raises:
        InputError: A file is missing or of another kind, or the files do not fit together.
    """

    def __init__(
        self, *paths: str | Path, on_progress: OnProgress = lambda n_records: None
    ) -> None:
        self.sources: list[Source] = []
        """The open files."""
        self.on_progress = on_progress
        try:
            for is_usages, group in groupby(matching_paths(paths), is_usages_file):
                open_group = _open_usages if is_usages else _open_hdf5
                self.sources += open_group(*group)
            self._check_agreement()
        except ElmoError:
            self.close()
            raise

    @property
    def paths(self) -> list[Path | str]:
        """Paths of the files."""
        return [path for source in self.sources for path in paths_of(source)]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the first file."""
        return self.sources[0].attributes

    @property
    def words(self) -> list[str]:
        """Target words that the files name before they are read."""
        return list(dict.fromkeys(word for source in self.sources for word in _words_of(source)))

    def read(self, layers: str | None = None) -> Iterator[Vectors]:
        """Yield the records of all files; see `read_vectors`."""
        for source in self.sources:
            for vectors in read_vectors(source, layers):
                self.on_progress(1)
                yield vectors

    def close(self) -> None:
        """Close the files."""
        _close(self.sources)

    def __enter__(self) -> "VectorFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_agreement(self) -> None:
        """Raise an `InputError` unless all sources with attributes agree in `_SHARED`."""
        described = [source for source in self.sources if source.attributes]
        for other in described[1:]:
            check_agreement(described[0], other, _SHARED)


open_vectors = VectorFiles


def _open_usages(*paths: Path | str) -> list[UsagesFile]:
    return list(map(open_usages, paths))


def _open_hdf5(*paths: Path | str) -> list[Activations]:
    """Open HDF5 files. The shards of an input become one source."""
    opened: list[Activations] = []
    try:
        for path in paths:
            opened.append(Activations(path))
        if len(opened) == 1 or not any("shard" in file.attributes for file in opened):
            return opened
    except ElmoError:
        _close(opened)
        raise
    _close(opened)
    return [Activations(*paths)]


def _close(sources: Sequence[Source]) -> None:
    for source in sources:
        if isinstance(source, Activations):
            source.close()


def sources_of(files: VectorFiles | Source) -> Sequence[Source]:
    """Return the sources of `VectorFiles`, or a source as a list."""
    return files.sources if isinstance(files, VectorFiles) else [files]


def _words_of(source: Source) -> list[str]:
    words = source.words if isinstance(source, UsagesFile) else forms_of(source).values()
    return list(dict.fromkeys(words))


def find_occurrences(
    files: VectorFiles | Activations,
    words: Mapping[str, str] | None = None,
    layers: str | None = None,
) -> dict[str, list[EmbeddedOccurrence]]:
    """Find the occurrences of words in files of tokens.

    Args:
        files: Files, read in their order.
        words: Target word of each form. Tokens and forms are compared as they are written, with
            their case. In npz, which has no forms, words are compared. None is all target words
            of the files.
        layers: Layers whose mean is the vector, as in `read_vectors`.

    Returns:
        The occurrences of each word, in the order of the files.
    """
    targets = set(words.values()) if words is not None else set()
    names = _target_words(files) if words is None else words.values()
    occurrences: dict[str, list[EmbeddedOccurrence]] = {name: [] for name in names}
    for vectors in _read(files, layers):
        has_forms = not isinstance(vectors.source, UsagesFile) or vectors.source.has_sentences
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            token = vectors.record.tokens[position]
            name: str | None
            if words is None:
                name = vectors.word(position)
            elif has_forms:
                name = words.get(token)
            else:
                name = token if token in targets else None
            if name is not None:
                occurrences.setdefault(name, []).append(_embedded(vectors, position, vector))
    return occurrences


def find_word(
    files: VectorFiles | Activations, word: str, layers: str | None = None
) -> list[EmbeddedOccurrence]:
    """Find the occurrences of one word, in the order of the files.

    A target word of the files is found in all its forms. Another word is found as it is written.
    """
    by_word: list[EmbeddedOccurrence] = []
    by_form: list[EmbeddedOccurrence] = []
    for vectors in _read(files, layers):
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            if vectors.word(position) == word:
                by_word.append(_embedded(vectors, position, vector))
            elif vectors.record.tokens[position] == word:
                by_form.append(_embedded(vectors, position, vector))
    return by_word or by_form


def _embedded(vectors: Vectors, position: int, vector: Array) -> EmbeddedOccurrence:
    occurrence = Occurrence(vectors.record.tokens, position)
    return EmbeddedOccurrence(occurrence, vectors.location, vector.copy())


def _target_words(files: VectorFiles | Activations) -> list[str]:
    return files.words if isinstance(files, VectorFiles) else _words_of(files)


def _read(files: VectorFiles | Activations, layers: str | None) -> Iterator[Vectors]:
    """Yield the records of files of tokens."""
    for source in sources_of(files):
        check_pooling(source, pooled=False)
    return files.read(layers) if isinstance(files, VectorFiles) else read_vectors(files, layers)


def read_vectors(source: Source, layers: str | None = None) -> Iterator[Vectors]:
    """Yield the records of a file that have tokens, in their order.

    Blank lines are skipped. In AllenNLP's layout, only the last of equal sentences has its text,
    so that the others are skipped, too.

    Args:
        source: Open file.
        layers: Numbers separated by commas of the layers whose mean is taken. None is all layers
            but the token layer.
    """
    rows = layer_rows(source, layers)
    if isinstance(source, UsagesFile):
        yield from _read_usages(source, rows)
        return
    is_pooled = "pooling" in source.attributes
    n_layers, forms = len(layer_numbers(source)), forms_of(source)
    for index, (record, values) in enumerate(source.records()):
        if values.ndim != 2 - is_pooled + (n_layers > 0) or n_layers not in (0, len(values)):
            raise InputError(
                f"{source.paths[0]}, line {index + 1:,}: expected {n_layers or 1} layers, as the "
                f"attributes say, found the shape {values.shape}"
            )
        vectors = np.atleast_2d(mean_of(values, rows))  # (n, W), pooled too
        try:
            positions = [0] if is_pooled and record.tokens else target_positions(record)
        except InputError as error:
            raise InputError(f"{source.paths[0]}, line {index + 1:,}: {error}") from None
        if len(positions) == len(vectors):
            yield Vectors(source, index, record, positions, vectors, forms)
        elif record.tokens:
            raise InputError(
                f"{source.paths[0]}, line {index + 1:,}: the sentence has {len(positions):,} "
                f"tokens, but {len(vectors):,} vectors"
            )
        elif len(vectors) and not source.has_sentences:
            raise InputError(
                f"{source.paths[0]}: the file does not contain the tokens, as for FASTA or after "
                "--forget-sentences"
            )


def _read_usages(source: UsagesFile, rows: list[int] | None) -> Iterator[Vectors]:
    """Yield one record per occurrence."""
    for row in source.rows():
        record = Record("", row.tokens, row.id)
        vector = mean_of(row.vectors, rows)[np.newaxis]  # (1, W)
        yield Vectors(source, row.number - 1, record, [row.position], vector, source.forms)
