"""Checks of texts: the rows of a table, or lines that may be passages."""

import re
from collections.abc import Callable
from typing import Final

from elmo_cli.errors.messages import Message, option_named
from elmo_cli.records.warnings.lines import hard_wrapping
from elmo_cli.records.warnings.sample import Sample
from elmo_cli.records.warnings.tokens import MIN_RESIDUES

_MIN_RESIDUES_OF_SEQUENCE: Final = 8
_SEQUENCE: Final = re.compile(
    rf"[ACDEFGHIKLMNPQRSTVWYX*-]{{{_MIN_RESIDUES_OF_SEQUENCE},}}"
)
"""Residues in one word. Few other words in capitals lack B, J, O, U and Z."""

_CAPITALS: Final = "A-ZÀ-ÞΑ-ΩА-Я"
_NO_VOWELS: Final = "[b-df-hj-np-tv-xz]+"
_ABBREVIATION: Final = (
    rf"(?:{_NO_VOWELS}|al|approx|ca|eds?|etc|evtl|in[ck]l|max|min|resp|usw)\."
)
_LAST_WORD: Final = rf"\b(?!{_ABBREVIATION})[^\W\d_{_CAPITALS}]{{2,}}\."
_SENTENCE_END: Final = re.compile(
    rf"""
    (?: {_LAST_WORD} | \w[!?] )
    ["'”’»)]*
    \s+
    ["'“‘«(]* [{_CAPITALS}]
    """,
    re.VERBOSE,
)
"""End of a sentence and start of the next. After an abbreviation, `.` ends none."""
_TOKENIZED_SENTENCE_END: Final = re.compile(
    rf"""\w\w [.!?] (?:["'”’»)`]+ )*[{_CAPITALS}]"""
)
_NUMBERS: Final = re.compile(r"[-+]?\d[\d.,]*(\s+[-+]?\d[\d.,]*)*")
_WORD: Final = re.compile(r"\S+")

_MIN_WORDS: Final = 10
_MIN_WORDS_SHARE: Final = 0.95
_MIN_SEQUENCES: Final = 3
_MIN_PASSAGES_SHARE: Final = 0.3


def only_numbers(sample: Sample) -> Message | None:
    """Return a warning if a column has numbers in place of texts."""
    if not sample.is_table:
        return None
    numbers = _matching(sample, _NUMBERS.fullmatch, least=1, share=1)
    if not numbers:
        return None
    name = "--word-column" if sample.has_word_rows else "--text-column"
    return Message(
        "the texts of the table are numbers ({first})",
        remedy="Choose another column with {option}.",
        first=numbers[0][:30],
        option=option_named(name),
    )


def words_as_texts(sample: Sample) -> Message | None:
    """Return a warning for rows that seem to be the words of running text."""
    if not sample.is_table:
        return None
    words = _matching(sample, _WORD.fullmatch, least=_MIN_WORDS, share=_MIN_WORDS_SHARE)
    n_ends = sum(word.rstrip("\"'”’»)").endswith((".", "!", "?")) for word in words)
    # All answers such as `Yes.` end a sentence.
    if n_ends == 0 or n_ends > len(words) / 3:
        return None
    return Message(
        f"{len(words):,} of the first {len(sample.texts):,} texts are "
        f"single words ({' '.join(words[:3])})",
        remedy=(
            "If they are the words of a text, use {--word-column}.",
            "If they are the words of a text, join them to sentences first.",
        ),
    )


def sequences_as_words(sample: Sample) -> Message | None:
    """Return a warning for sequences of residues that are one token each."""
    if max(map(len, sample.tokens), default=0) < _MIN_RESIDUES_OF_SEQUENCE:
        return None
    sequences = _matching(
        sample, _SEQUENCE.fullmatch, least=_MIN_SEQUENCES, share=MIN_RESIDUES
    )
    if not sequences:
        return None
    return Message(
        f"{len(sequences):,} of the first {len(sample.texts):,} texts are "
        f"one word of capital letters ({sequences[0][:30]})",
        remedy="If the letters are residues, use {--tokenizer residues}.",
    )


def sentences_in_texts(sample: Sample) -> Message | None:
    """Return a warning if many texts or lines contain several sentences."""
    if not sample.expected.may_split_sentences:
        return None
    least = 1 if sample.is_table and len(sample.texts) == 1 else 2
    passages = _matching(
        sample,
        _SENTENCE_END.search if sample.is_table else _sentence_end,
        least=least,
        share=_MIN_PASSAGES_SHARE,
    )
    if not passages or hard_wrapping(sample) is not None:
        return None
    found = "{n_passages} of the first {n_texts} {unit} contain"
    if len(sample.texts) == 1:
        found = "the text contains"
    return Message(
        found + " several sentences, but the model was trained on single sentences",
        remedy="Use {--split-sentences True}.",
        n_passages=f"{len(passages):,}",
        n_texts=f"{len(sample.texts):,}",
        unit="texts" if sample.is_table else "lines",
    )


def _sentence_end(line: str) -> re.Match[str] | None:
    """Find the end of a sentence in a line, which may be tokenized."""
    return _SENTENCE_END.search(line) or _TOKENIZED_SENTENCE_END.search(line)


def region_marks(sample: Sample) -> Message | None:
    """Return a warning for regions without `|`, or for a `|` that is a token."""
    if not sample.expected.may_have_regions:
        return None
    texts = sample.texts
    if sample.expected.splits_regions:
        if not texts or any("|" in text for text in texts):
            return None
        first = "the text" if len(texts) == 1 else f"the first {len(texts):,} texts"
        return Message(f"no | in {first}, so each text is one region")
    n_marked = sum(" | " in text for text in texts)
    if "|" not in sample.tokens or 2 * n_marked <= len(texts):
        return None
    found = f"{n_marked:,} of the first {len(texts):,} texts contain"
    if len(texts) == 1:
        found = "the text contains"
    return Message(
        f"{found} |, which becomes a token",
        remedy="If it separates regions, use {--by region}.",
    )


def _matching(
    sample: Sample, matches: Callable[[str], object], *, least: int, share: float
) -> list[str]:
    """Return the texts for which `matches` is true, stripped, if they are enough.

    `least` is their minimum number, and `share` their minimum share of the texts.
    """
    if not sample.is_whole:
        return []
    texts = [text.strip() for text in sample.texts]
    found = [text for text in texts if matches(text)]
    return found if len(found) >= max(least, share * len(texts)) else []
