"""Warnings about input that is read, but probably not as the user wants."""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from elmo_cli.text.records import Record, Sentence

logger = logging.getLogger(__name__)

_MARKS: Final = tuple('.,;:!?"')
_SAMPLE_TOKENS: Final = 1000
"""Number of tokens at the beginning of a text that `warn_about_tokenizer` checks."""
_MAX_ATTACHED: Final = 0.05
"""Share of these tokens that may end in a mark, as abbreviations do."""
_MAX_EXAMPLES: Final = 3


class _Script(NamedTuple):
    """Script that is written without spaces between words."""

    characters: re.Pattern[str]
    max_length: int
    """Characters of a long word."""
    advice: str


_SPACY: Final = "Use --tokenizer {}."
_SCRIPTS: Final = {
    # Kana come first: Japanese has Chinese characters too.
    "Japanese": _Script(re.compile("[\u3040-\u30ff]"), 12, _SPACY.format("spacy:ja")),
    "Chinese": _Script(re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), 8, _SPACY.format("spacy:zh")),
    "Thai": _Script(re.compile("[\u0e00-\u0e7f]"), 20, _SPACY.format("spacy:th")),
    "Lao": _Script(re.compile("[\u0e80-\u0eff]"), 20, "Separate its words by spaces first."),
    "Burmese": _Script(re.compile("[\u1000-\u109f]"), 20, "Separate its words by spaces first."),
    "Khmer": _Script(re.compile("[\u1780-\u17ff]"), 20, "Separate its words by spaces first."),
}


def warn_about_tokenizer(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records. Log a warning if whitespace seems to be the wrong tokenizer."""
    tokens: Sentence = []
    records = iter(records)
    for record in records:
        yield record
        tokens += record.tokens
        if len(tokens) >= _SAMPLE_TOKENS:
            break
    attached = [token for token in tokens if token[:-1] and token.endswith(_MARKS)]
    if language := _unspaced_language(tokens):
        logger.warning(
            "Warning: the text is in %s without spaces between words, so a whole phrase becomes "
            "one token. %s",
            language,
            _SCRIPTS[language].advice,
        )
    elif len(attached) > _MAX_ATTACHED * len(tokens):
        logger.warning(
            "Warning: %s of the first %s tokens end in punctuation (%s), which becomes part of the "
            "word. Use --tokenizer moses to split it off.",
            f"{len(attached):,}",
            f"{len(tokens):,}",
            " ".join(attached[:_MAX_EXAMPLES]),
        )
    yield from records


def warn_about_blank_lines(first: int, n_sentences: int) -> None:
    """Log a warning about sentences of CoNLL-U without a blank line before them.

    Args:
        first: Number of the line where the first one begins.
        n_sentences: Number of these sentences.
    """
    logger.warning(
        "Warning: line %s: %s of CoNLL-U without a blank line before. Every line with the ID 1 "
        "begins a new sentence.",
        f"{first:,}",
        "a sentence" if n_sentences == 1 else f"the first of {n_sentences:,} sentences",
    )


def _unspaced_language(tokens: Sentence) -> str | None:
    """Return the language of tokens that are phrases in a script without spaces, if any."""
    shortest = min(script.max_length for script in _SCRIPTS.values())
    long = [token for token in tokens if len(token) > shortest and not token.isascii()]
    for language, script in _SCRIPTS.items():
        phrases = [each for each in long if len(script.characters.findall(each)) * 2 > len(each)]
        if language == "Japanese":
            phrases = [
                each for each in long if len(script.characters.findall(each)) * 5 > len(each)
            ]
        if sum(len(each) > script.max_length for each in phrases) > _MAX_ATTACHED * len(tokens):
            return language
    return None


class TokenLimit(NamedTuple):
    """Length of a token that a model reads."""

    length: int
    unit: Literal["bytes", "characters"]
    """Unit of the length: bytes of UTF-8, or characters."""


class LongTokens:
    """Counter of the tokens that are longer than a model reads."""

    def __init__(self, limit: TokenLimit) -> None:
        """Count the tokens that are longer than a limit."""
        self._limit = limit
        self._n_found = self._first = 0
        # A character has at most 4 bytes, so most sentences need no encoding.
        self._max_characters = limit.length // (4 if limit.unit == "bytes" else 1)

    def add(self, tokens: Sentence, number: int) -> None:
        """Count the long tokens of a sentence, which has a number in the input."""
        if max(map(len, tokens), default=0) <= self._max_characters:
            return
        n_found = sum(self._length(token) > self._limit.length for token in tokens)
        if n_found and not self._n_found:
            self._first = number
        self._n_found += n_found

    def _length(self, token: str) -> int:
        return len(token.encode("utf-8", "ignore") if self._limit.unit == "bytes" else token)

    def warn(self, number_unit: str) -> None:
        """Log a warning if long tokens were found. Their numbers count `number_unit`s."""
        if self._n_found:
            logger.warning(
                "Warning: %s longer than the %s %s that the model reads. The rest is ignored. The "
                "first is in %s %s.",
                "1 token is" if self._n_found == 1 else f"{self._n_found:,} tokens are",
                *(self._limit.length, self._limit.unit, number_unit, f"{self._first:,}"),
            )
