"""Occurrences of words: a token of a sentence, typed by a user or found in files of vectors."""

import logging
from dataclasses import dataclass, field

from elmo_cli.analysis.vector_sources import (
    Array,
    Location,
)
from elmo_cli.errors.checks import Sentence, check_sentence, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.text.tokenizers import normalize, tokenize

logger = logging.getLogger(__name__)


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
