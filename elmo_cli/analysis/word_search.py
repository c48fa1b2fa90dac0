"""Search for the occurrences of words in files of vectors."""

import logging
from collections.abc import Mapping

from elmo_cli.analysis.occurrences import EmbeddedOccurrence
from elmo_cli.analysis.targets import TargetFinder
from elmo_cli.analysis.vector_files import VectorFiles, as_files
from elmo_cli.analysis.vector_sources import Vectors
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.tokenizers import normalize

logger = logging.getLogger(__name__)


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
        found = dict(enumerate(vectors.words))
        if words is not None and "match" not in vectors.source.attributes:
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
