"""Occurrences of words: a token of a sentence, typed by a user or found in files of vectors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from elmo_cli.analysis.vector_sources import (
    ActivationsSource,
    Array,
    Location,
    Vectors,
    VectorSource,
    usages_type,
)
from elmo_cli.errors import InputError, SettingsError
from elmo_cli.outputs.reader import SHARED_ATTRIBUTES, Activations, check_same, matching_paths
from elmo_cli.text.records import Sentence

OnProgress = Callable[[int], object]

"""Attributes that must be equal in files that are read together, if the files have attributes."""


@dataclass(frozen=True)
class Occurrence:
    """Token of a sentence."""

    sentence: Sentence
    index: int
    """Position of the token, from 0."""

    @property
    def token(self) -> str:
        """Text of the token."""
        return self.sentence[self.index]

    @property
    def marked(self) -> str:
        """Text of the sentence, with the token in brackets."""
        before, after = self.sentence[: self.index], self.sentence[self.index + 1 :]
        return " ".join([*before, f"[{self.token}]", *after])


@dataclass(frozen=True)
class EmbeddedOccurrence(Occurrence):
    """Occurrence in a file, with its vector."""

    location: Location
    vector: Array = field(compare=False)
    """float, shape (W,)."""


def find_occurrence(
    sentence: Sentence, word: str, number: int | None = None, *, option: str = "a number"
) -> Occurrence:
    """Find a word in a sentence, by the number of its occurrence: `option` in messages."""
    positions = [index for index, token in enumerate(sentence) if token == word]
    text = repr(" ".join(sentence)) if sentence else "an empty sentence"
    if not positions:
        folded = {token.casefold(): token for token in reversed(sentence)}
        similar = get_close_matches(word.casefold(), folded, n=1)
        question = f". Did you mean {folded[similar[0]]!r}?" if similar else ""
        raise InputError(f"{word!r} is not a token of {text}{question}")
    if number is None and len(positions) > 1:
        raise InputError(
            f"{word!r} occurs {len(positions)} times in {text}. Choose one with {option}, "
            f"1 to {len(positions)}."
        )
    if number is not None and not 1 <= number <= len(positions):
        times = "once" if len(positions) == 1 else f"{len(positions)} times"
        raise SettingsError(f"{word!r} occurs {times} in {text}, not {number} times.")
    return Occurrence(sentence, positions[(number or 1) - 1])


@dataclass(eq=False)
class VectorFiles:
    """Open files with vectors of tokens, from `open_vectors`, in their order."""

    sources: list[VectorSource]
    on_progress: OnProgress = lambda n_records: None

    @property
    def paths(self) -> list[Path | str]:
        """Paths of the files."""
        return [path for source in self.sources for path in source.paths]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the first file that has any."""
        return next((source.attributes for source in self.sources if source.attributes), {})

    @property
    def words(self) -> list[str]:
        """Target words that the files name before they are read."""
        return list(dict.fromkeys(word for source in self.sources for word in source.words))

    def read(self, layers: str | None = None) -> Iterator[Vectors]:
        """Yield the records of all files; see `VectorSource.read`."""
        for source in self.sources:
            for vectors in source.read(layers):
                self.on_progress(1)
                yield vectors

    def has_token_layer(self, layers: str | None = None) -> bool:
        """Return whether a file has vectors with the token layer, which finds similar spelling."""
        return any(source.has_token_layer(layers) for source in self.sources)

    def check_pooling(self, *, pooled: bool) -> None:
        """Raise an `InputError` unless all files have one vector per sentence, or per token."""
        for source in self.sources:
            pooling = source.attributes.get("pooling")
            if pooled and pooling is None:
                raise InputError(
                    f"{source.path}: expected one vector per sentence, found one per token. `elmo "
                    "embed --pooling mean` writes the former."
                )
            if not pooled and pooling is not None:
                raise InputError(
                    f"{source.path}: expected one vector per token, found one per sentence, by "
                    f"--pooling {pooling}. `elmo neighbours --sentence` searches it."
                )

    def close(self) -> None:
        """Close the files."""
        for source in self.sources:
            source.close()

    def __enter__(self) -> "VectorFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vectors(
    *paths: str | Path, on_progress: OnProgress = lambda n_records: None
) -> VectorFiles:
    """Open files with vectors of tokens. The result is a context manager.

        with open_vectors("old.parquet", "new.hdf5") as files:
            for vectors in files.read(): ...

    Args:
        paths: HDF5 files of `elmo embed`, files of `elmo usages` in any format, folders of `elmo
            distribute`, or patterns of such names. The shards of an input are read as one file.
        on_progress: Called with the number of records that were read since the last call.

    Raises:
        InputError: A file is missing or of another kind, or the files do not fit together.
    """
    with ExitStack() as opened:
        files = opened.enter_context(VectorFiles([], on_progress))
        for kind, group in groupby(matching_paths(paths), usages_type):
            found = list(group)
            files.sources += _open_activations(*found) if kind is None else map(kind, found)
        described = [(each.path, each.attributes) for each in files.sources if each.attributes]
        if described:
            check_same(described, SHARED_ATTRIBUTES)
        opened.pop_all()
    return files


def as_files(files: VectorFiles | Activations) -> VectorFiles:
    """Return open activations as `VectorFiles`."""
    return files if isinstance(files, VectorFiles) else VectorFiles([ActivationsSource(files)])


def _open_activations(*paths: Path | str) -> list[ActivationsSource]:
    """Open HDF5 files. The shards of an input become one source."""
    with ExitStack() as opened:
        files = [opened.enter_context(Activations(path)) for path in paths]
        if len(files) == 1 or not any("shard" in file.attributes for file in files):
            sources = list(map(ActivationsSource, files))
            opened.pop_all()
            return sources
    return [ActivationsSource(Activations(*paths))]


def find_occurrences(
    files: VectorFiles | Activations,
    words: Mapping[str, str] | None = None,
    layers: str | None = None,
) -> dict[str, list[EmbeddedOccurrence]]:
    """Find the occurrences of words in files of tokens, in the order of the files.

    `words` has the target word of each form, as it is written; in npz, which has no forms, words
    are compared. None is all target words of the files.
    """
    files = as_files(files)
    names = files.words if words is None else words.values()
    occurrences: dict[str, list[EmbeddedOccurrence]] = {name: [] for name in names}
    own_words = dict(zip(occurrences, occurrences, strict=True))
    files.check_pooling(pooled=False)
    for vectors in files.read(layers):
        targets = words if words is None or vectors.source.has_forms else own_words
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            token = vectors.record.tokens[position]
            name = vectors.word(position) if targets is None else targets.get(token)
            if name is not None:
                occurrences.setdefault(name, []).append(_embedded(vectors, position, vector))
    return occurrences


def find_word(files: VectorFiles, word: str, layers: str | None = None) -> list[EmbeddedOccurrence]:
    """Find the occurrences of one word, in the order of the files.

    A target word of the files is found in all its forms. Another word is found as it is written.
    """
    by_word: list[EmbeddedOccurrence] = []
    by_form: list[EmbeddedOccurrence] = []
    files.check_pooling(pooled=False)
    for vectors in files.read(layers):
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            if vectors.word(position) == word:
                by_word.append(_embedded(vectors, position, vector))
            elif vectors.record.tokens[position] == word:
                by_form.append(_embedded(vectors, position, vector))
    return by_word or by_form


def _embedded(vectors: Vectors, position: int, vector: Array) -> EmbeddedOccurrence:
    return EmbeddedOccurrence(vectors.record.tokens, position, vectors.location, vector.copy())
