"""Occurrences of words: a token of a sentence, typed by a user or found in a file."""

from dataclasses import dataclass, field

from elmo_cli.analysis.vector_sources import Array, Location
from elmo_cli.errors.checks import Sentence, check_sentence, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.text.tokenizers import normalize, tokenize


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
        before = self.sentence[: self.index]
        after = self.sentence[self.index + 1 :]
        return " ".join([*before, f"[{self.token}]", *after])


OccurrencePair = tuple[Occurrence, Occurrence]


@dataclass(frozen=True)
class EmbeddedOccurrence(Occurrence):
    """Occurrence in a file, with its vector."""

    location: Location
    vector: Array = field(compare=False)
    """float, shape (W,)."""


def find_occurrence(
    sentence: Sentence | str, word: str, number: int | None = None
) -> Occurrence:
    """Return the occurrence of a word in a sentence.

    Args:
        sentence: List of tokens, or a raw English sentence; see `tokenize` for other
            languages.
        word: Token of the sentence, as it is written.
        number: Number of its occurrence, from 1; required if the word occurs several
            times.

    Raises:
        InputError: The word does not occur, or occurs several times and has no number.
    """
    if isinstance(sentence, str):
        tokens = tokenize(sentence)
    else:
        tokens = check_sentence(sentence)
    check_type("word", word, str, "a string")
    return occurrence_of(word, tokens, number, "a number")


def occurrence_of(
    word: str, sentence: Sentence, number: int | None, number_name: str
) -> Occurrence:
    """Return the occurrence of a word in the tokens of a sentence.

    The error for a word that occurs several times says that `number_name`, such as
    `--occurrence`, chooses one.
    """
    forms = (word, normalize(word))
    positions = [index for index, token in enumerate(sentence) if token in forms]
    text = repr(" ".join(sentence)) if sentence else "an empty sentence"
    if not positions:
        problem = f"{word!r} is not a token of {text}"
        question = did_you_mean(word, reversed(sentence))
        raise InputError(f"{problem}.{question}" if question else problem)
    n_positions = len(positions)
    if number is None and n_positions > 1:
        remedy = f"Choose one with {number_name}, 1 to {n_positions}."
        raise InputError(f"{word!r} occurs {n_positions} times in {text}. {remedy}")
    if number is not None and not 1 <= number <= n_positions:
        times = "once" if n_positions == 1 else f"{n_positions} times"
        raise SettingsError(f"{word!r} occurs {times} in {text}, not {number} times.")
    index = 0 if number is None else number - 1
    return Occurrence(sentence, positions[index])
