"""Units of a text whose surprisal is measured: tokens, words, regions or sentences.

token      one token
word       separated by white space in the text: `didn` and `'t` are the word `didn't`
region     separated by `|` in the text: `The horse | raced past the barn | fell.`
sentence   computed by itself: the whole text, unless it was split into sentences
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.surprisal import UnitKind
from elmo_cli.records.record import LIST_OF_REGIONS, Record, Span
from elmo_cli.text.alignment import CharacterSpan, align_spans, locate_tokens
from elmo_cli.text.tokenizers import Tokenizer
from elmo_cli.types import Sentence

_REGION_MARK: Final = "|"
_REGION: Final = re.compile(r"(?:^|(?<=\|))[^|]*")
_SPACED_MARK: Final = re.compile(r"\s*\|\s*")
_WORD: Final = re.compile(r"\S+")


class Unit(NamedTuple):
    """Part of a text."""

    number: int
    """Number in its text, from 1."""
    text: str
    tokens: slice
    """Positions of its tokens."""
    region: "Unit | None" = None
    """Region of a word or token, if the text has regions."""
    is_whole: bool = True
    """False if one of its tokens belongs to another unit too."""


def ignore_marks(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer for texts with marks of regions, which are no tokens.

    It has the sentences and tokens of the text with a space in place of each mark.
    """

    def tokenize(text: str) -> Sentence:
        return tokenizer.tokenize(_without_marks(text))

    return replace(tokenizer, tokenize=tokenize, clean=_without_marks)


def _without_marks(text: str) -> str:
    return _SPACED_MARK.sub(" ", text)


def find_units(kind: UnitKind, text: str, tokens: Sentence) -> list[Unit]:
    """Split the tokens of a text into units, none of which is empty.

    Raise an `InputError` if the tokens are not those of the text.
    """
    if kind == "token":
        return [
            Unit(position + 1, token, slice(position, position + 1))
            for position, token in enumerate(tokens)
        ]
    if kind == "sentence":
        return [Unit(1, text, slice(0, len(tokens)))] if tokens else []
    if kind == "word":
        return _align(_WORD.finditer(text), locate_tokens(text, tokens))
    if _REGION_MARK in tokens:
        raise InputError(LIST_OF_REGIONS)
    located = locate_tokens(text.replace(_REGION_MARK, " "), tokens)
    return _align(_REGION.finditer(text), located)


def units_of(
    kind: UnitKind, record: Record, *, with_regions: bool = False
) -> list[Unit]:
    """Split the tokens of a record into units. Words that the input gives may be empty.

    `with_regions` adds its region to each unit; the text has marks between them then.
    """
    if record.original_id is not None:
        # The text of a FASTA record begins with its header.
        record = record._replace(text="".join(record.tokens))
    if kind == "word" and record.words:
        return [
            Unit(number, word.text, word.tokens, is_whole=word.is_whole)
            for number, word in enumerate(record.words, start=1)
        ]
    if kind == "sentence" and record.sentences:
        return _units_of_sentences(record.sentences)
    if not with_regions:
        return find_units(kind, record.text, record.tokens)
    region_of_token: dict[int, Unit] = {}
    for region in find_units("region", record.text, record.tokens):
        for position in range(region.tokens.start, region.tokens.stop):
            region_of_token.setdefault(position, region)
    text = record.text.replace(_REGION_MARK, " ")
    return [
        unit._replace(region=region_of_token.get(unit.tokens.start))
        for unit in find_units(kind, text, record.tokens)
    ]


def _units_of_sentences(sentences: Iterable[Span]) -> list[Unit]:
    units = []
    start = 0
    for number, sentence in enumerate(sentences, start=1):
        stop = start + sentence.n_tokens
        units.append(Unit(number, sentence.text, slice(start, stop)))
        start = stop
    return units


def _align(
    parts: Iterable[re.Match[str]], located: Sequence[CharacterSpan]
) -> list[Unit]:
    """Return the parts of a text that have tokens, with their numbers from 1."""
    found = list(parts)
    spans = [CharacterSpan(*part.span()) for part in found]
    units = []
    aligned_parts = zip(found, align_spans(spans, located), strict=True)
    for number, (part, aligned) in enumerate(aligned_parts, start=1):
        if aligned.tokens.start == aligned.tokens.stop:
            continue
        text = part.group().strip()
        units.append(Unit(number, text, aligned.tokens, is_whole=aligned.are_whole))
    return units
