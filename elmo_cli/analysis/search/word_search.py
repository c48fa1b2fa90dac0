"""Search for the occurrences of words in files of vectors."""

import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from elmo_cli.analysis.occurrences.targets import TargetFinder
from elmo_cli.analysis.search.vector_files import VectorFiles, opened_files
from elmo_cli.analysis.search.vector_sources import Location, Vectors
from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import did_you_mean, quoted
from elmo_cli.options.layers import Layers
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.occurrences import Occurrence
from elmo_cli.text.tokenizers import normalize

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedOccurrence(Occurrence):
    """Occurrence in a file, with its vector."""

    location: Location
    vector: AnyArray = field(compare=False)
    """float, shape (W,)."""


def find_occurrences(
    files: VectorFiles | Activations,
    words: Mapping[str, str] | None = None,
    layers: Layers | None = None,
    *,
    ignore_case: bool = False,
) -> dict[str, list[EmbeddedOccurrence]]:
    """Find the occurrences of words in files of tokens, in the order of the files.

    Args:
        files: Files of `open_occurrences` or `open_activations`.
        words: Target word of each form. The forms are compared with the tokens, and
            the words with the target words of a file, which may be annotated in other
            forms. None means all target words of the files.
        layers: Layers to average, such as "1,2", 2, -1 or
            [0, 2]. None means all layers in the files except the token layer.
        ignore_case: Ignore case when comparing forms with tokens.
    """
    finder = TargetFinder(words or {}, ignore_case=ignore_case)
    with opened_files(files) as opened:
        occurrences = _find_all(opened, words, layers=layers, finder=finder)
        warning = finder.warning()
        if warning:
            logger.warning("%s: %s", opened.paths[0], warning)
    return occurrences


def _find_all(
    files: VectorFiles,
    words: Mapping[str, str] | None,
    *,
    layers: Layers | None,
    finder: TargetFinder,
) -> dict[str, list[EmbeddedOccurrence]]:
    files.check_pooling(pooled=False)
    wanted = files.words if words is None else words.values()
    occurrences: dict[str, list[EmbeddedOccurrence]] = {word: [] for word in wanted}
    for vectors in files.read(layers):
        if words is None:
            found = dict(enumerate(vectors.words))
        else:
            found = _find_in_record(
                vectors, forms=words, wanted=occurrences, finder=finder
            )
        for index, word in found.items():
            occurrence = _embedded_occurrence(vectors, index)
            occurrences.setdefault(word, []).append(occurrence)
    return occurrences


def _find_in_record(
    vectors: Vectors,
    forms: Container[str],
    wanted: Container[str],
    *,
    finder: TargetFinder,
) -> dict[int, str]:
    """Return the target word of each vector that has one, by its index.

    The first rule that applies to a vector decides:

    1. In a file whose target words were found by lemmas or places, forms do not count:
       its target word in the file, if that is wanted.
    2. If its token is a form of a wanted word, that word.
    3. In a file of target words, which may be annotated in any form: its target word
       in the file, if that is wanted.

    Args:
        vectors: Vectors of a record.
        forms: Forms of all wanted words.
        wanted: The wanted words.
        finder: Finder of the forms.
    """
    wanted_in_file = {
        index: word for index, word in enumerate(vectors.words) if word in wanted
    }
    if "match" in vectors.source.attributes:
        return wanted_in_file
    tokens = [vectors.record.tokens[position] for position in vectors.positions]
    in_other_forms: dict[int, str] = {}
    if vectors.source.has_targets:
        for index, word in wanted_in_file.items():
            if tokens[index] not in forms:
                in_other_forms[index] = word
                # The finder would note it as a form in another case, not counted.
                tokens[index] = ""
    found = finder.find(tokens)
    found.update(in_other_forms)
    return dict(sorted(found.items()))


def find_word(
    files: VectorFiles, word: str, layers: Layers | None = None
) -> list[EmbeddedOccurrence]:
    """Find the occurrences of a word.

    A target word of the files is found in all its forms, another word as it is written.
    `layers` is as in `find_neighbours`.
    """
    files.check_pooling(pooled=False)
    by_word: list[EmbeddedOccurrence] = []
    by_form: list[EmbeddedOccurrence] = []
    similar_words = set[str]()  # words that may have been meant
    forms = (word, normalize(word).strip())
    initial = word[:1].lower()
    for vectors in files.read(layers):
        for index, own_word in enumerate(vectors.words):
            token = vectors.record.tokens[vectors.positions[index]]
            if own_word == word:
                by_word.append(_embedded_occurrence(vectors, index))
            elif token in forms:
                by_form.append(_embedded_occurrence(vectors, index))
            elif own_word[:1].lower() == initial:
                similar_words.add(own_word)
    if not by_word and not by_form:
        remedy = did_you_mean(word, similar_words)
        if "," in word:
            remedy = (
                "Name one word. A target word of `elmo occurrences` has all its forms."
            )
        paths = ", ".join(map(str, files.paths))
        raise InputError(f"{paths}: {quoted(word)} does not occur", remedy=remedy)
    return by_word or by_form


def _embedded_occurrence(vectors: Vectors, index: int) -> EmbeddedOccurrence:
    return EmbeddedOccurrence(
        sentence=vectors.record.tokens,
        index=vectors.positions[index],
        location=vectors.location,
        vector=vectors.vectors[index].copy(),
    )
