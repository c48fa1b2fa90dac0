"""Report of what was read: warnings about input that is probably not as the user wants.

`InputReport.see` takes each record as it passes, so a stream never waits for the report. There are
two kinds of warnings, each of them one function:

- A check of the beginning looks at a `Sample` of the first records and returns its warning or None.
  It runs once, when the sample is as large as it needs, or at the end of a shorter input. A new
  check is a function in `CHECKS`.
- A tally counts something in all records, and warns at the end. A new one is a `Tally` in
  `InputReport`.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from elmo_cli.text.parsers import ORIGINAL_ID, Entry
from elmo_cli.text.records import Sentence

logger = logging.getLogger(__name__)


class TokenLimit(NamedTuple):
    """Length of a token that a model reads."""

    length: int
    unit: Literal["bytes", "characters"]
    """Unit of the length: bytes of UTF-8, or characters."""


class Expected(NamedTuple):
    """Input that a model expects. The defaults describe an unknown model."""

    token_limit: TokenLimit | None = None
    """Length of a token that the model reads; a warning counts longer tokens."""
    model: str = ""
    language: str | None = None
    """Language that a published model was trained on, such as English, or `PROTEINS`."""


PROTEINS: Final = "proteins"
"""Language of a model that was trained on proteins."""


UNKNOWN: Final = Expected()
"""Input of a model about which nothing is known."""


@dataclass
class Sample:
    """First records of an input, and how they are read."""

    is_text: bool = True
    """True if each line is a sentence, or is split into sentences."""
    is_split_at_spaces: bool = True
    """True if whitespace separates the tokens, because no other tokenizer was chosen."""
    expected: Expected = UNKNOWN
    tokens: Sentence = field(default_factory=list)
    """Tokens of the first records, at least `_SAMPLE_TOKENS` if there are as many."""
    lines: dict[int, str] = field(default_factory=dict)
    """Lines of a text by their numbers, from 1. Blank lines may be missing."""
    is_fasta: bool = False

    def add(self, entry: Entry) -> None:
        """Add the next record."""
        number, record = entry.line, entry.record
        if len(self.tokens) < _SAMPLE_TOKENS:
            self.tokens += record.tokens
            self.is_fasta = self.is_fasta or ORIGINAL_ID in record.attributes
        if number <= _SAMPLE_LINES:
            before = self.lines.get(number)
            self.lines[number] = record.text if before is None else f"{before} {record.text}"


_SAMPLE_TOKENS: Final = 1000
_SAMPLE_LINES: Final = 200
_MAX_ATTACHED: Final = 0.05
"""Share of the tokens that may end in a mark, as abbreviations do."""
_MAX_EXAMPLES: Final = 3
_MARKS: Final = tuple('.,;:!?"')


def attached_punctuation(sample: Sample) -> str | None:
    """Return a warning if whitespace seems to be the wrong tokenizer."""
    tokens = sample.tokens
    if not sample.is_split_at_spaces:
        return None
    if language := _unspaced_language(tokens):
        return (
            f"the text is in {language} without spaces between words, so a whole phrase becomes "
            f"one token. {_SCRIPTS[language].advice}"
        )
    attached = [token for token in tokens if token[:-1] and token.endswith(_MARKS)]
    if len(attached) <= _MAX_ATTACHED * len(tokens):
        return None
    return (
        f"{len(attached):,} of the first {len(tokens):,} tokens end in punctuation "
        f"({' '.join(attached[:_MAX_EXAMPLES])}), which becomes part of the word. Use --tokenizer "
        "moses to split it off."
    )


class _Script(NamedTuple):
    """Script that is written without spaces between words."""

    characters: re.Pattern[str]
    max_length: int
    """Characters of a long word."""
    advice: str
    min_share: float = 0.5
    """Minimum share of these characters in a phrase."""


_SPACY: Final = "Use --tokenizer {}."
_BY_HAND: Final = "Separate its words by spaces first."
_SCRIPTS: Final = {
    # Kana come first: Japanese has Chinese characters too.
    "Japanese": _Script(re.compile("[\u3040-\u30ff]"), 12, _SPACY.format("spacy:ja"), 0.2),
    "Chinese": _Script(re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), 8, _SPACY.format("spacy:zh")),
    "Thai": _Script(re.compile("[\u0e00-\u0e7f]"), 20, _SPACY.format("spacy:th")),
    "Lao": _Script(re.compile("[\u0e80-\u0eff]"), 20, _BY_HAND),
    "Burmese": _Script(re.compile("[\u1000-\u109f]"), 20, _BY_HAND),
    "Khmer": _Script(re.compile("[\u1780-\u17ff]"), 20, _BY_HAND),
}


def _unspaced_language(tokens: Sentence) -> str | None:
    """Return the language of tokens that are phrases in a script without spaces, if any."""
    words = [token for token in tokens if not token.isascii()]
    for language, script in _SCRIPTS.items():
        n_phrases = sum(
            len(script.characters.findall(word)) > script.min_share * len(word)
            for word in words
            if len(word) > script.max_length
        )
        if n_phrases > _MAX_ATTACHED * len(tokens):
            return language
    return None


_MIN_LINES: Final = 20
"""Minimum number of lines that another line follows in their paragraph."""
_MIN_SHARE: Final = 0.6
"""Minimum share of these lines that end without punctuation, and that have similar widths."""
_MIN_WIDTH, _MAX_WIDTH = 40, 120
_SIMILAR: Final = 0.75
"""Minimum width of a full line, as a share of the width of the longest lines."""
_SENTENCE_ENDS: Final = tuple(".!?:;…。！？\"'”’»)]")


def hard_wrapping(sample: Sample) -> str | None:
    """Return a warning if the lines of a text seem to end where a maximum width is reached."""
    lines = [sample.lines.get(number, "") for number in range(1, max(sample.lines, default=0) + 1)]
    followed = [line for line, following in pairwise(lines) if line and following]
    if not sample.is_text or len(followed) < _MIN_LINES:
        return None
    widths = sorted(map(len, followed))
    width = widths[len(widths) * 9 // 10]  # Single longer lines do not count.
    n_open = sum(not line.endswith(_SENTENCE_ENDS) for line in followed)
    n_full = sum(_SIMILAR * width <= each <= width * 1.1 for each in widths)
    is_usual = _MIN_WIDTH <= width <= _MAX_WIDTH
    if not is_usual or min(n_open, n_full) < _MIN_SHARE * len(followed):
        return None
    return (
        "the text seems to be hard-wrapped: most lines end within a sentence. Use --paragraphs to "
        "join the lines until a blank line."
    )


_RESIDUES: Final = frozenset("ABCDEFGHIKLMNOPQRSTUVWXYZ*-")
_MIN_RESIDUES: Final = 0.9
"""Minimum share of residues among the tokens of proteins."""
_MIN_TOKENS: Final = 20
"""Number of tokens of an input, other than FASTA, whose domain is guessed."""


def other_domain(sample: Sample) -> str | None:
    """Return a warning for proteins with a published model of text, or the reverse."""
    tokens, language, model = sample.tokens, sample.expected.language, sample.expected.model
    is_enough = bool(tokens) and (sample.is_fasta or len(tokens) >= _MIN_TOKENS)
    if language is None or not is_enough:
        return None
    is_proteins = sum(token in _RESIDUES for token in tokens) >= _MIN_RESIDUES * len(tokens)
    if is_proteins and language != PROTEINS:
        return (
            f"the input seems to be proteins, but the model {model} was trained on {language} "
            "text. --model seqvec was trained on proteins."
        )
    if language == PROTEINS and not is_proteins:
        return (
            f"the input seems to be text, but the model {model} was trained on proteins. "
            "--model original was trained on English text."
        )
    return None


class Check(NamedTuple):
    """Check of the first records."""

    warning: Callable[[Sample], str | None]
    n_tokens: int = 0
    """Number of tokens in the sample that the check waits for."""
    n_lines: int = 0
    """Number of the line in the sample that the check waits for."""


CHECKS: Final = (
    Check(hard_wrapping, n_lines=_SAMPLE_LINES),
    Check(attached_punctuation, n_tokens=_SAMPLE_TOKENS),
    Check(other_domain, n_tokens=_SAMPLE_TOKENS),
)


@dataclass
class Tally:
    """Count of something in all records."""

    count: Callable[[Entry], int]
    """Function that counts it in a record."""
    warning: Callable[["Tally", str], str]
    """Function that returns the warning; its second argument is what the numbers count."""
    n_found: int = 0
    first: int = 0
    """Number of the first record that has it."""


def long_tokens(limit: TokenLimit) -> Tally:
    """Count the tokens that are longer than a model reads."""
    is_bytes = limit.unit == "bytes"
    # A character has at most 4 bytes, so most sentences need no encoding.
    max_characters = limit.length // (4 if is_bytes else 1)

    def length(token: str) -> int:
        return len(token.encode("utf-8", "ignore") if is_bytes else token)

    def count(entry: Entry) -> int:
        tokens = entry.record.tokens
        if not tokens or max(map(len, tokens)) <= max_characters:
            return 0
        return sum(length(token) > limit.length for token in tokens)

    def warning(tally: Tally, number_unit: str) -> str:
        are = "1 token is" if tally.n_found == 1 else f"{tally.n_found:,} tokens are"
        return (
            f"{are} longer than the {limit.length} {limit.unit} that the model reads. The rest is "
            f"ignored. The first is in {number_unit} {tally.first:,}."
        )

    return Tally(count, warning)


def missing_blank_lines() -> Tally:
    """Count the sentences of CoNLL-U without a blank line before them."""

    def warning(tally: Tally, number_unit: str) -> str:
        one = "a sentence"
        which = one if tally.n_found == 1 else f"the first of {tally.n_found:,} sentences"
        return (
            f"{number_unit} {tally.first:,}: {which} of CoNLL-U without a blank line before. Every "
            "line with the ID 1 begins a new sentence."
        )

    return Tally(lambda entry: entry.has_no_blank_line, warning)


class InputReport:
    """Warnings about an input, each logged once."""

    def __init__(self, sample: Sample, number_unit: str = "line") -> None:
        """Report on an input; the numbers of its records count a unit, such as lines."""
        self._sample, self._number_unit = sample, number_unit
        self._waiting = list(CHECKS)
        limit = sample.expected.token_limit
        self._tallies = [] if limit is None else [long_tokens(limit)]
        if not sample.is_text:
            self._tallies.append(missing_blank_lines())

    def see(self, entry: Entry) -> None:
        """Take the next record."""
        for tally in self._tallies:
            if n_found := tally.count(entry):
                tally.first = tally.first or entry.line
                tally.n_found += n_found
        if self._waiting:
            self._sample.add(entry)
            n_tokens, line = len(self._sample.tokens), entry.line
            ready = [each for each in self._waiting if _is_ready(each, n_tokens, line)]
            for check in ready:
                self._run(check)

    def end(self, *, is_complete: bool) -> None:
        """Log the other warnings; `is_complete` is False if only a beginning was read."""
        for tally in self._tallies:
            if tally.n_found:
                logger.warning("Warning: %s", tally.warning(tally, self._number_unit))
        while is_complete and self._waiting:
            self._run(self._waiting[0])

    def _run(self, check: Check) -> None:
        self._waiting.remove(check)
        if warning := check.warning(self._sample):
            logger.warning("Warning: %s", warning)


def _is_ready(check: Check, n_tokens: int, line: int) -> bool:
    return n_tokens >= check.n_tokens and line >= check.n_lines
