"""Occurrences of words: a token of a sentence, typed by a user or found in files of vectors."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from elmo_cli.analysis.targets import TargetFinder
from elmo_cli.analysis.vector_sources import (
    ActivationsSource,
    Array,
    Location,
    Vectors,
    VectorSource,
    usages_type,
)
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import Sentence, check_sentence, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.reader import (
    SHARED_ATTRIBUTES,
    Activations,
    check_same,
    matching_paths,
)
from elmo_cli.text.tokenizers import normalize, tokenize

logger = logging.getLogger(__name__)

OnProgress = Callable[[int], object]


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


Pair = tuple[Occurrence, Occurrence]


@dataclass(frozen=True)
class EmbeddedOccurrence(Occurrence):
    """Occurrence in a file, with its vector."""

    location: Location
    vector: Array = field(compare=False)  # float, shape (W,)


def find_occurrence(
    sentence: Sentence | str, word: str, number: int | None = None
) -> Occurrence:
    """Return the occurrence of a word in a sentence.

    Args:
        sentence: List of tokens, or a raw English sentence; see `tokenize` for other languages.
        word: Token of the sentence, as it is written.
        number: Number of its occurrence, from 1; required if the word occurs several times.

    Raises:
        InputError: The word does not occur, or occurs several times and has no number.
    """
    sentence = (
        tokenize(sentence) if isinstance(sentence, str) else check_sentence(sentence)
    )
    check_type("word", word, str, "a string")
    return occurrence_of(word, sentence, number, "a number")


def occurrence_of(
    word: str, sentence: Sentence, number: int | None, option: str
) -> Occurrence:
    """Return the occurrence of a word; `option` is the name of its number in messages."""
    forms = (word, normalize(word))
    positions = [index for index, token in enumerate(sentence) if token in forms]
    text = repr(" ".join(sentence)) if sentence else "an empty sentence"
    if not positions:
        question = did_you_mean(word, reversed(sentence))
        raise InputError(
            f"{word!r} is not a token of {text}{'.' if question else ''}{question}"
        )
    if number is None and len(positions) > 1:
        remedy = f"Choose one with {option}, 1 to {len(positions)}."
        raise InputError(f"{word!r} occurs {len(positions)} times in {text}. {remedy}")
    if number is not None and not 1 <= number <= len(positions):
        times = "once" if len(positions) == 1 else f"{len(positions)} times"
        raise SettingsError(f"{word!r} occurs {times} in {text}, not {number} times.")
    return Occurrence(sentence, positions[(number or 1) - 1])


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
        return next(
            (source.attributes for source in self.sources if source.attributes), {}
        )

    @property
    def words(self) -> list[str]:
        """Target words that the files name before they are read."""
        return list(
            dict.fromkeys(word for source in self.sources for word in source.words)
        )

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        """Yield the records of all files; see `VectorSource.read`."""
        for source in self.sources:
            for vectors in source.read(layers):
                self.on_progress(1)
                yield vectors

    def has_token_layer(self, layers: Layers | None = None) -> bool:
        """Return whether a file has vectors with the token layer, which finds similar spelling."""
        return any(source.has_token_layer(layers) for source in self.sources)

    def check_pooling(self, *, pooled: bool) -> None:
        """Raise an `InputError` unless all files have one vector per sentence, or per token."""
        for source in self.sources:
            pooling = source.attributes.get("pooling")
            if pooled and pooling is None:
                problem = "the file has one vector per token"
                remedy = "`elmo embed --pooling mean` writes one per sentence."
                raise InputError(f"{source.path}: {problem}. {remedy}")
            if not pooled and pooling is not None:
                raise InputError(
                    f"{source.path}: the file has one vector per sentence (--pooling {pooling}). "
                    "Use `elmo neighbours --sentence`, or embed without --pooling."
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
    """Open files with vectors of tokens. The result is a context manager.

        with open_occurrences("old.parquet", "new.hdf5") as files:
            for vectors in files.read(): ...

    Args:
        paths: HDF5 files of `elmo embed`, files of `elmo usages` in any format, folders of `elmo
            distribute`, or patterns of such names. The shards of an input are read as one file.
        on_progress: Called with the number of records that were read since the last call.

    Raises:
        InputError: A file is missing or of another kind, or the files do not fit together.
    """
    with ExitStack() as opened:
        files = opened.enter_context(VectorFiles([], on_progress or ignore))
        for kind, group in groupby(matching_paths(paths), usages_type):
            found = list(group)
            files.sources += (
                _open_activations(*found) if kind is None else map(kind, found)
            )
        described = [
            (each.path, each.attributes) for each in files.sources if each.attributes
        ]
        if described:
            check_same(described, SHARED_ATTRIBUTES)
        opened.pop_all()
    return files


def as_files(files: VectorFiles | Activations) -> VectorFiles:
    """Return open activations as `VectorFiles`."""
    opened = "the result of open_occurrences or open_activations"
    check_type("files", files, (VectorFiles, Activations), opened)
    return (
        files
        if isinstance(files, VectorFiles)
        else VectorFiles([ActivationsSource(files)])
    )


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
    layers: Layers | None = None,
    *,
    ignore_case: bool = False,
) -> dict[str, list[EmbeddedOccurrence]]:
    """Find the occurrences of words in files of tokens, in the order of the files.

    `words` has the target word of each form, which is compared with the tokens; or with the target
    words of the files, if these were not found by their forms. None is all target words.
    """
    files = as_files(files)
    names = files.words if words is None else words.values()
    occurrences: dict[str, list[EmbeddedOccurrence]] = {name: [] for name in names}
    finder = TargetFinder(words or {}, ignore_case=ignore_case)
    files.check_pooling(pooled=False)
    for vectors in files.read(layers):
        source, found = vectors.source, dict(enumerate(vectors.words))
        if words is not None and source.has_forms and "match" not in source.attributes:
            found = finder.find(
                [vectors.record.tokens[each] for each in vectors.positions]
            )
        for index, name in found.items():
            if words is None or name in occurrences:
                occurrences.setdefault(name, []).append(_embedded(vectors, index))
    if warning := finder.warning():
        logger.warning("Warning: %s: %s", files.paths[0], warning)
    return occurrences


def find_word(
    files: VectorFiles, word: str, layers: Layers | None = None
) -> list[EmbeddedOccurrence]:
    """Find a target word of the files in all its forms, or another word as it is written."""
    by_word: list[EmbeddedOccurrence] = []
    by_form: list[EmbeddedOccurrence] = []
    others = set[str]()  # words that may have been meant
    files.check_pooling(pooled=False)
    forms, initial = (word, normalize(word)), word[:1].lower()
    for vectors in files.read(layers):
        for index, own_word in enumerate(vectors.words):
            if own_word == word:
                by_word.append(_embedded(vectors, index))
            elif vectors.record.tokens[vectors.positions[index]] in forms:
                by_form.append(_embedded(vectors, index))
            elif own_word[:1].lower() == initial:
                others.add(own_word)
    if not (found := by_word or by_form):
        advice = did_you_mean(word, others)
        if "," in word:
            advice = " Name one word. A target word of `elmo usages` has all its forms."
        paths = ", ".join(map(str, files.paths))
        raise InputError(f"{paths}: {word!r} does not occur.{advice}")
    return found


def _embedded(vectors: Vectors, index: int) -> EmbeddedOccurrence:
    tokens, position = vectors.record.tokens, vectors.positions[index]
    return EmbeddedOccurrence(
        tokens, position, vectors.location, vectors.vectors[index].copy()
    )
