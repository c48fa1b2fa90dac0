"""Occurrences of words: tokens of sentences, typed by a user or found in a file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Final, Literal

from elmo_cli.errors.checks import check_sentence, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import counted, did_you_mean, kind_of, listed, quoted
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.text.alignment import CharacterSpan, align_spans, locate_tokens
from elmo_cli.text.choose_tokenizer import choose_tokenizer, strings_in
from elmo_cli.text.tokenizers import Tokenizer, normalize
from elmo_cli.types import Sentence, Text


@dataclass(frozen=True)
class Occurrence:
    """Token of a sentence, or several tokens of an annotated word."""

    sentence: Sentence
    index: int
    """Position of the token, or of the first of several, from 0."""
    n_tokens: int = field(default=1, kw_only=True)
    """Number of tokens. The vector is the mean of theirs."""
    is_whole: bool = field(default=True, kw_only=True)
    """False if the annotated word is only a part of its tokens."""

    @property
    def positions(self) -> slice:
        """Positions of the tokens."""
        return slice(self.index, self.index + self.n_tokens)

    @property
    def is_one_token(self) -> bool:
        """True unless an annotated word is a part of a token, or several tokens."""
        return self.is_whole and self.n_tokens == 1

    @property
    def token(self) -> str:
        """Text of the token, or of several, separated by spaces."""
        return " ".join(self.sentence[self.positions])

    @property
    def marked(self) -> str:
        """Text of the sentence, with the tokens in brackets."""
        before = self.sentence[: self.index]
        after = self.sentence[self.positions.stop :]
        return " ".join([*before, f"[{self.token}]", *after])


_MAX_NAMED_TOKENS: Final = 10
"""Maximum number of tokens that an error names."""
OccurrencePair = tuple[Occurrence, Occurrence]


def find_occurrence(
    sentence: Text,
    word: str,
    occurrence: int | None = None,
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Occurrence:
    """Return the occurrence of a word in a sentence.

        find_occurrence("We sat on the bank.", "bank").index  # 4

    Args:
        sentence: Raw sentence, or a list of tokens.
        word: Token of the sentence, as it is written.
        occurrence: Which occurrence of the word, from 1; required if the word occurs
            several times.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" splits a sentence that is tokenized at
            white space, and others by "moses".
        language: Language code of a raw sentence. None means English.

    Returns:
        The tokens of the sentence, and the position of the word.

    Raises:
        InputError: The word does not occur, occurs several times and has no number, or
            does not occur so often.
        SettingsError: `occurrence` is below 1, or the tokenizer is unknown.
    """
    settings = TextSettings(tokenizer=tokenizer, language=language)
    chosen = choose_tokenizer(settings, "strings", strings_in([sentence]))
    tokens = tokens_around(word, sentence, chosen, order="sentence")
    return occurrence_of(
        word, tokens, number=occurrence, choice_of=partial(numbers_after, "occurrence=")
    )


def tokens_around(
    word: str,
    sentence: Text,
    tokenizer: Tokenizer,
    name: str = "sentence",
    *,
    order: Literal["sentence", "word"],
    word_name: str = "word",
) -> Sentence:
    """Return the tokens of a sentence in which a word is searched for.

    Raise an `InputError` for other types, or if the word and the sentence are swapped.
    `name` and `word_name` name their arguments, and `order` says which of the two comes
    first.
    """
    second = "word" if order == "sentence" else "sentence"
    remedy = f"Give the {order} first, then the {second}."
    if isinstance(word, list) and sentence in word:
        raise InputError(
            f"{word_name}: expected a string, found a list of tokens", remedy=remedy
        )
    check_type(word_name, word, str, "a string")
    if not isinstance(sentence, str):
        return check_sentence(sentence, name, "a string or a list of tokens")
    if sentence != word and sentence in tokenizer.tokenize(word):
        raise InputError(
            f"{name}: expected a sentence with {quoted(word)}, "
            f"found {quoted(sentence)}",
            remedy=remedy,
        )
    return tokenizer.tokenize(sentence)


def check_pair(pair: object, name: str) -> None:
    """Raise an `InputError` unless a value is two occurrences."""
    items = list(pair) if isinstance(pair, (tuple, list)) else []
    if len(items) == 2 and all(isinstance(each, Occurrence) for each in items):
        return
    found = kind_of(pair)
    if isinstance(pair, (tuple, list)):
        found = f"a {type(pair).__name__} of {counted(len(pair), 'value')}"
    raise InputError(
        f"{name}: expected (word, sentence1, sentence2), or two results of "
        f"find_occurrence, found {found}"
    )


def numbers_after(start: str, n_occurrences: int) -> str:
    """Return what is typed to choose an occurrence: `--occurrence 1 or --occurrence 2`.

    `start` is the text before a number.
    """
    if n_occurrences > 2:
        return f"{start}1 to {start}{n_occurrences}"
    return " or ".join(f"{start}{number}" for number in range(1, n_occurrences + 1))


def occurrence_of(
    word: str,
    sentence: Sentence,
    number: int | None,
    choice_of: Callable[[int], str],
    *,
    argument: str = "occurrence",
) -> Occurrence:
    """Return the occurrence of a word in the tokens of a sentence.

    If the word occurs several times, the error says how to choose one: `choice_of` gets
    their number, and returns what to add, such as `numbers_after`. `argument` is the
    argument with the number.
    """
    if number is not None:
        check_type(argument, number, Integral, "a whole number")
        if number < 1:
            raise SettingsError(f"{argument}: expected 1 or more, found {number}")
    forms = (word, normalize(word).strip())
    positions = [index for index, token in enumerate(sentence) if token in forms]
    text = quoted(" ".join(sentence)) if sentence else "an empty sentence"
    if not positions:
        problem = f"{quoted(word)} is not a token of {text}"
        if len(sentence) == 1 and " " in sentence[0]:
            remedy = "The list has one token. Give the string itself, or split it."
            raise InputError(problem, remedy=remedy)
        if len(word.split()) > 1:
            advice = f"A word is one token here. {_choice_of_tokens(sentence)}"
        elif sentence:
            question = did_you_mean(word, reversed(sentence))
            advice = question or _choice_of_tokens(sentence)
        else:
            advice = ""
        raise InputError(problem, remedy=f"{literal(advice)}" if advice else None)
    n_positions = len(positions)
    if number is None and n_positions > 1:
        raise InputError(
            f"{quoted(word)} occurs {n_positions} times in {text}",
            remedy=f"Add {choice_of(n_positions)}.",
        )
    if number is not None and number > n_positions:
        times = "once" if n_positions == 1 else f"{n_positions} times"
        raise InputError(
            f"{quoted(word)} occurs {times} in {text}, not {number} times",
            remedy=f"Use {choice_of(n_positions)}.",
        )
    index = 0 if number is None else number - 1
    return Occurrence(sentence, positions[index])


def _choice_of_tokens(sentence: Sentence) -> str:
    """Return the advice to choose a token, which names a few."""
    tokens = list(dict.fromkeys(sentence))
    if len(tokens) > _MAX_NAMED_TOKENS:
        return "Choose one of its tokens."
    return f"Choose {listed(map(quoted, tokens), 'or')}."


def occurrence_at(span: CharacterSpan, text: str, tokens: Sentence) -> Occurrence:
    """Return the occurrence that has characters of a text with these tokens.

    It has all tokens that the characters overlap. Raise an `InputError` without any.
    """
    [aligned] = align_spans([span], locate_tokens(text, tokens))
    positions = aligned.tokens
    n_tokens = positions.stop - positions.start
    if n_tokens == 0 or span.end > len(text):
        raise InputError(
            f"characters {span.start}:{span.end}: expected a word of "
            f"{quoted(text)}, which has {counted(len(text), 'character')}"
        )
    return Occurrence(
        tokens, positions.start, n_tokens=n_tokens, is_whole=aligned.are_whole
    )
