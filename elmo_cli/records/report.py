"""Report of what was read: warnings about input that is probably not as the user wants.

`InputReport.see` takes each record as it passes, so a stream never waits. A check in `CHECKS` looks
once at a `Sample` of the first records, as large as it needs, and returns its warning or None. A
`Tally` counts something in all records, and warns at the end.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import is_offered
from elmo_cli.errors.wording import counted
from elmo_cli.files.text_files import BYTE_ORDER_MARK
from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.records.conllu import TO_ONE_SENTENCE_PER_LINE
from elmo_cli.records.record import ORIGINAL_ID, Entry

logger = logging.getLogger(__name__)


PROTEINS: Final = "proteins"  # language of a model that was trained on proteins


class Expected(NamedTuple):
    """Input that a model expects. The defaults describe an unknown model."""

    token_limit: TokenLimit | None = None
    model: str = ""
    language: str | None = None
    """Language that a published model was trained on, such as English, or `PROTEINS`."""


UNKNOWN: Final = Expected()


@dataclass
class Sample:
    """First records of an input, and how they are read."""

    is_text: bool = True  # True if each line is a sentence, or is split into sentences
    is_split_at_spaces: bool = True
    expected: Expected = UNKNOWN
    tokens: Sentence = field(
        default_factory=list
    )  # at least `_SAMPLE_TOKENS`, if possible
    lines: dict[int, str] = field(default_factory=dict)
    """Lines of a text by their numbers, from 1, or texts of a table. Blank ones may be missing."""
    is_fasta: bool = False
    is_table: bool = False
    # True if each line or text is one record, which may be a passage
    is_whole: bool = True
    detached: list[tuple[bool, str]] = field(
        default_factory=list
    )  # see `detached_token`
    # column of a table whose texts `|` separates into regions
    region_column: str | None = None

    @property
    def texts(self) -> list[str]:
        """First lines or texts that are not blank."""
        return [text for text in self.lines.values() if text.strip()]

    def add(self, entry: Entry) -> None:
        """Add the next record."""
        number, record = entry.line, entry.record
        if len(self.tokens) < _SAMPLE_TOKENS:
            self.tokens += record.tokens
            self.is_fasta = self.is_fasta or ORIGINAL_ID in record.attributes
        if number <= _SAMPLE_LINES:
            before = self.lines.get(number)
            self.lines[number] = (
                record.text if before is None else f"{before} {record.text}"
            )
            self.detached.append(detached_token(record.text, record.tokens))


_SAMPLE_TOKENS: Final = 1000


_SAMPLE_LINES: Final = 200


_MAX_ATTACHED: Final = 0.05  # share of the tokens


_MARKS: Final = tuple('.,;:!?"')


def attached_punctuation(sample: Sample) -> str | None:
    """Return a warning if whitespace seems to be the wrong tokenizer."""
    tokens = sample.tokens if sample.is_split_at_spaces else []
    if warning := _unspaced_language(tokens):
        return warning
    attached = [token for token in tokens if token[:-1] and token.endswith(_MARKS)]
    if len(attached) <= _MAX_ATTACHED * len(tokens):  # It may be abbreviations.
        return None
    return (
        f"{len(attached):,} of the first {len(tokens):,} tokens end in punctuation "
        f"({' '.join(attached[:3])}), which becomes part of the word. Use --tokenizer "
        "moses to split it off."
    )


_DETACHED: Final = re.compile(
    r"(?<!\S)\S+ (?:['’](?:d|ll|m|re|s|ve)|n['’]t|[.,])(?!\S)"
)


_ATTACHED: Final = re.compile(r"\w{2}[.,](?!\S)|\w['’]s\b")


_MAX_DETACHED: Final = 0.2  # share of the texts; raw text has a few such typing errors


def detached_token(text: str, tokens: Sentence) -> tuple[bool, str]:
    """Return a token that a text has detached, with the word before, or else an empty text.

    It comes with whether a word of the text is split into several of `tokens`.
    """
    is_split = len(tokens) > len(
        text.replace("|", " ").split()
    )  # Marks of regions are no tokens.
    match = None if _ATTACHED.search(text) else _DETACHED.search(text)
    return match is not None and is_split, match[0] if match else ""


def tokenized_text(sample: Sample) -> str | None:
    """Return a warning if a tokenizer splits the tokens of texts that are tokenized already."""
    n_found, n_texts = (
        sum(found != "" for _, found in sample.detached),
        len(sample.texts),
    )
    ranked = sorted(sample.detached, key=lambda each: (each[0], each[1][-1:].isalpha()))
    is_split, example = ranked[-1] if ranked else (False, "")
    if not is_split or n_found <= _MAX_DETACHED * n_texts:
        return None
    problem = (
        f"{n_found:,} of the first {n_texts:,} texts look tokenized already ({example})"
    )
    return f"{problem}. Use --tokenizer whitespace."


def region_marks(sample: Sample) -> str | None:
    """Return a warning for regions that no `|` separates, or for `|` that becomes a token."""
    n_marked, texts = sum(" | " in text for text in sample.texts), sample.texts
    if sample.region_column is not None:
        where = f"the first {counted(len(texts), 'text')} in {sample.region_column!r}"
        has_mark = any("|" in text for text in texts) or not texts
        return (
            None if has_mark else f"none of {where} contains |, so each is one region."
        )
    if (
        "|" not in sample.tokens
        or 2 * n_marked <= len(texts)
        or not is_offered("--regions")
    ):
        return None
    remedy = (
        "use"
        if sample.is_table
        else "put the texts into a table with a header, and use"
    )
    return (
        f"{n_marked:,} of the first {len(texts):,} texts contain |, which becomes a token. If it "
        f"separates regions, {remedy} --regions COLUMN."
    )


_BY_HAND: Final = "Separate its words by spaces first."


_SCRIPTS: Final = (
    # Kana come first: Japanese has Chinese characters too.
    ("Japanese", "[\u3040-\u30ff]", 12, 0.2, "Use --tokenizer spacy:ja."),
    ("Chinese", "[\u3400-\u4dbf\u4e00-\u9fff]", 8, 0.5, "Use --tokenizer spacy:zh."),
    ("Thai", "[\u0e00-\u0e7f]", 20, 0.5, "Use --tokenizer spacy:th."),
    ("Lao", "[\u0e80-\u0eff]", 20, 0.5, _BY_HAND),
    ("Burmese", "[\u1000-\u109f]", 20, 0.5, _BY_HAND),
    ("Khmer", "[\u1780-\u17ff]", 20, 0.5, _BY_HAND),
)
"""Languages that are written without spaces between words: their characters, the length of a long
word, the minimum share of these characters in a phrase, and advice."""


def _unspaced_language(tokens: Sentence) -> str | None:
    """Return a warning for tokens that are phrases in a script without spaces."""
    words = [token for token in tokens if not token.isascii()]
    for language, characters, max_length, min_share, advice in _SCRIPTS:
        n_phrases = sum(
            len(re.findall(characters, word)) > min_share * len(word)
            for word in words
            if len(word) > max_length
        )
        if n_phrases > _MAX_ATTACHED * len(tokens):
            return (
                f"the text is in {language} without spaces between words, so a whole phrase "
                f"becomes one token. {advice}"
            )
    return None


_MIN_LINES: Final = 20  # lines that another line follows in their paragraph


_MIN_SHARE: Final = 0.6
"""Minimum share of these lines that end without punctuation, and that have similar widths."""


# minimum width of a full line, as a share of the longest lines' width
_SIMILAR: Final = 0.75


_SENTENCE_ENDS: Final = tuple(".!?:;…。！？\"'”’»)]")


def hard_wrapping(sample: Sample) -> str | None:
    """Return a warning if the lines of a text seem to end where a maximum width is reached."""
    lines = [
        sample.lines.get(number, "")
        for number in range(1, max(sample.lines, default=0) + 1)
    ]
    followed = [
        line for line, following in pairwise(lines) if " " in line and following
    ]
    if not sample.is_text or len(followed) < _MIN_LINES:
        return None
    widths = sorted(map(len, followed))
    width = widths[len(widths) * 9 // 10]  # Single longer lines do not count.
    n_open = sum(not line.endswith(_SENTENCE_ENDS) for line in followed)
    n_full = sum(_SIMILAR * width <= each <= width * 1.1 for each in widths)
    if not 40 <= width <= 120 or min(n_open, n_full) < _MIN_SHARE * len(followed):
        return None
    remedy = "Use --paragraphs to join the lines until a blank line."
    return (
        f"the text seems to be hard-wrapped: most lines end within a sentence. {remedy}"
    )


_RESIDUES: Final = frozenset("ABCDEFGHIKLMNOPQRSTUVWXYZ*-")


_MIN_RESIDUES: Final = 0.9  # minimum share of residues among the tokens of proteins


_MIN_TOKENS: Final = 20  # tokens of an input, other than FASTA, whose domain is guessed


def other_domain(sample: Sample) -> str | None:
    """Return a warning for proteins with a published model of text, or the reverse."""
    tokens, language, model = (
        sample.tokens,
        sample.expected.language,
        sample.expected.model,
    )
    is_enough = bool(tokens) and (sample.is_fasta or len(tokens) >= _MIN_TOKENS)
    if language is None or not is_enough:
        return None
    is_proteins = sum(token in _RESIDUES for token in tokens) >= _MIN_RESIDUES * len(
        tokens
    )
    if is_proteins == (language == PROTEINS):
        return None
    seems, trained, other, others = (
        ("proteins", f"{language} text", "seqvec", "proteins")
        if is_proteins
        else ("text", "proteins", "original", "English text")
    )
    return (
        f"the input seems to be {seems}, but the model {model} was trained on {trained}. --model "
        f"{other} was trained on {others}."
    )


_SEQUENCE: Final = "[ACDEFGHIKLMNPQRSTVWYX*-]{8,}"
"""Residues in one word. Few other words in capitals lack B, J, O, U and Z."""


_PASSAGE: Final = (
    r"(?s:.*)(\b(?!(?:[b-df-hj-np-tv-xz]+|al|approx|ca|eds?|etc|evtl|in[ck]l|max|min|resp|usw)\.)"
    r"""[^\W\d_A-ZÀ-ÞΑ-ΩА-Я]{2,}\.|\w[!?])["'”’»)]*\s+["'“‘«(]*[A-ZÀ-ÞΑ-ΩА-Я](?s:.*)"""
)
"""Text with a sentence end inside. An abbreviation before a full stop ends no sentence."""


_TOKENIZED_PASSAGE: Final = (
    r"""(?s:.*)\w\w [.!?] (?:["'”’»)`]+ )*[A-ZÀ-ÞΑ-ΩА-Я](?s:.*)"""
)


def _matching(sample: Sample, pattern: str, least: int, share: float) -> list[str]:
    """Return the first texts that match, if they are enough of them."""
    found = [
        text for text in map(str.strip, sample.texts) if re.fullmatch(pattern, text)
    ]
    return (
        found
        if sample.is_whole and len(found) >= max(least, share * len(sample.texts))
        else []
    )


def only_numbers(sample: Sample) -> str | None:
    """Return a warning if a column has numbers in place of texts."""
    numbers = _matching(sample, r"[-+]?\d[\d.,]*", least=1, share=1)
    if not numbers or not sample.is_table:
        return None
    return f"the texts of the table are numbers ({numbers[0]}). Choose another with --text-column."


def words_as_texts(sample: Sample) -> str | None:
    """Return a warning for rows that seem to be the words of running text."""
    words = _matching(sample, r"\S+", least=10, share=0.95) if sample.is_table else []
    n_ends = sum(word.rstrip("\"'”’»)").endswith((".", "!", "?")) for word in words)
    if not 0 < n_ends <= len(words) / 3:  # All answers such as `Yes.` end a sentence.
        return None
    remedy = (
        "use --word-column"
        if is_offered("--word-column")
        else "join them to sentences first"
    )
    return (
        f"{len(words):,} of the first {len(sample.texts):,} texts are single words "
        f"({' '.join(words[:3])}). If they are the words of a text, {remedy}."
    )


def repeated_words(sample: Sample) -> str | None:
    """Return a warning for texts of a row per word and subject."""
    pairs = [pair for text in sample.texts for pair in pairwise(text.split())]
    words = [word for word, following in pairs if word == following]
    if sample.is_text or sample.is_fasta or len(words) < max(5, 0.4 * len(pairs)):
        return None
    remedy = "If the table has a row per word and subject, keep one row per word."
    return f"most words repeat the one before ({words[0]} {words[0]}). {remedy}"


def sequences_as_words(sample: Sample) -> str | None:
    """Return a warning for sequences of residues that are one token each."""
    sequences = _matching(sample, _SEQUENCE, least=5, share=_MIN_RESIDUES)
    if not sequences or max(map(len, sample.tokens), default=0) < 8:
        return None
    return (
        f"{len(sequences):,} of the first {len(sample.texts):,} texts are one word of capital "
        f"letters ({sequences[0][:30]}). If the letters are residues, use --tokenizer residues."
    )


def sentences_in_texts(sample: Sample) -> str | None:
    """Return a warning if many texts of a table, or lines of a text, contain several sentences."""
    pattern = _PASSAGE if sample.is_table else f"{_PASSAGE}|{_TOKENIZED_PASSAGE}"
    passages = _matching(
        sample, pattern, least=max(2, min(5, len(sample.texts))), share=0.3
    )
    if not passages or hard_wrapping(sample) or not is_offered("--split-sentences"):
        return None
    unit = "texts" if sample.is_table else "lines"
    return (
        f"{len(passages):,} of the first {len(sample.texts):,} {unit} contain several sentences, "
        "but the model was trained on single sentences. Use --split-sentences."
    )


def tabs_in_lines(sample: Sample) -> str | None:
    """Return a warning if the lines of a text are rows of TSV."""
    n_tabs = {text.count("\t") for text in sample.texts}
    if not sample.is_text or len(sample.texts) < 2 or len(n_tabs) != 1 or 0 in n_tabs:
        return None
    return (
        "every line of the text has tabs. If it is a table with a header, use --input-format tsv "
        f"and --text-column. If each line has a word, {TO_ONE_SENTENCE_PER_LINE} Otherwise take a "
        "column of it with `cut -f N FILE`."
    )


def no_tokens(sample: Sample) -> str | None:
    """Return a warning for an input without tokens."""
    return None if sample.tokens else "the input has no tokens."


Check = Callable[[Sample], str | None]


_TOKEN_CHECKS: Final = (no_tokens, attached_punctuation, other_domain, repeated_words)


_TABLE_CHECKS: Final = (
    *(only_numbers, words_as_texts, sequences_as_words, sentences_in_texts),
    *(tokenized_text, region_marks),
)


CHECKS: Final = (hard_wrapping, *_TOKEN_CHECKS, *_TABLE_CHECKS, tabs_in_lines)
"""Checks. Those of tokens wait for `_SAMPLE_TOKENS`, and the others for `_SAMPLE_LINES`."""


@dataclass
class Tally:
    """Count of something in all records."""

    count: Callable[[Entry], int]  # in a record
    warning: Callable[[int, str], str]  # (count, place of the first record)
    n_found: int = 0
    first: int = 0


def long_tokens(limit: TokenLimit) -> Tally:
    """Count the tokens that are longer than a model reads."""
    is_bytes = limit.unit == "bytes"
    # A character has at most 4 bytes, so most sentences need no encoding.
    max_characters = limit.length // (4 if is_bytes else 1)

    def count(entry: Entry) -> int:
        tokens = entry.record.tokens
        if max(map(len, tokens), default=0) <= max_characters:
            return 0
        units = (
            token.encode("utf-8", "ignore") if is_bytes else token for token in tokens
        )
        return sum(len(each) > limit.length for each in units)

    def warning(n_found: int, first: str) -> str:
        are = "1 token is" if n_found == 1 else f"{n_found:,} tokens are"
        rest = f"The rest is ignored. The first is in {first}."
        return f"{are} longer than the {limit.length} {limit.unit} that the model reads. {rest}"

    return Tally(count, warning)


def missing_blank_lines() -> Tally:
    """Count the sentences of CoNLL-U without a blank line before them."""

    def warning(n_found: int, first: str) -> str:
        which = "a sentence" if n_found == 1 else f"the first of {n_found:,} sentences"
        remedy = "Every line with the ID 1 begins a new sentence."
        return f"{first}: {which} of CoNLL-U without a blank line before. {remedy}"

    return Tally(lambda entry: entry.has_no_blank_line, warning)


_TYPOGRAPHIC: Final = frozenset("‘’“”–—…")


def typographic_marks() -> Tally:
    """Count the tokens with typographic marks, which the text of English models hardly has."""
    examples: list[str] = []

    def count(entry: Entry) -> int:
        if "".join(entry.record.tokens).isascii():
            return 0
        found = [
            token for token in entry.record.tokens if not _TYPOGRAPHIC.isdisjoint(token)
        ]
        examples.extend(found[: 3 - len(examples)])
        return len(found)

    def warning(n_found: int, first: str) -> str:
        return (
            f"{counted(n_found, 'token')} with typographic marks ({' '.join(examples)}), which the "
            f"model hardly knows, the first in {first}. Use --tokenizer moses for raw text, which "
            "makes them plain. Replace them first in text that is tokenized already."
        )

    return Tally(count, warning)


_MISREAD: Final = {
    "[\x80-\x9f]": "control characters (U+0080 to U+009F): {:,}, the first in {}. They are "
    "probably quotes and dashes of Windows-1252 that were read as Latin-1. Repair them with "
    """`perl -CSD -MEncode -pe 's/[\\x80-\\x9f]/decode("cp1252", $&)/ge' FILE`.""",
    BYTE_ORDER_MARK: "byte order marks (U+FEFF) within lines: {:,}, the first in {}. They "
    "become part of words. Remove them with `perl -pe 's/\\xef\\xbb\\xbf//g' FILE`.",
}
"""Characters that no text has, with the warning for their number and the place of the first."""


def misread_characters(pattern: str, warning: str) -> Tally:
    """Count characters that only a wrong conversion of a file leaves in its text."""

    def count(entry: Entry) -> int:
        text = entry.record.text
        return 0 if text.isascii() else len(re.findall(pattern, text))

    return Tally(count, warning.format)


class InputReport:
    """Warnings about an input, each logged once."""

    def __init__(self, sample: Sample, number_unit: str = "line") -> None:
        """Report on an input; the numbers of its records count a unit, such as lines."""
        self._sample, self._number_unit = sample, number_unit
        self._waiting: list[Check] = list(CHECKS)
        limit = sample.expected.token_limit
        self._tallies = [misread_characters(*each) for each in _MISREAD.items()]
        self._tallies += [] if limit is None else [long_tokens(limit)]
        if sample.expected.language == "English":
            self._tallies.append(typographic_marks())
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
            has_tokens = len(self._sample.tokens) >= _SAMPLE_TOKENS
            for check in list(self._waiting):
                if (
                    has_tokens
                    if check in _TOKEN_CHECKS
                    else entry.line >= _SAMPLE_LINES
                ):
                    self._run(check)

    def end(self, *, is_complete: bool) -> None:
        """Log the other warnings; `is_complete` is False if only a beginning was read."""
        for tally in self._tallies:
            if tally.n_found:
                first = f"{self._number_unit} {tally.first:,}"
                logger.warning("Warning: %s", tally.warning(tally.n_found, first))
        for check in list(self._waiting) if is_complete else ():
            self._run(check)

    def _run(self, check: Check) -> None:
        self._waiting.remove(check)
        if warning := check(self._sample):
            logger.warning("Warning: %s", warning)
