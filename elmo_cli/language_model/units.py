"""Units of a text whose surprisal is measured: tokens, words, regions or sentences.

token      one token
word       separated by white space in the text: `didn` and `'t` are the word `didn't`
region     separated by `|` in the text: `The horse | raced past the barn | fell.`
sentence   computed by itself: the whole text, unless it was split into sentences
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal, NamedTuple, get_args

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.records.record import Record, Span
from elmo_cli.text.tokenizers import Tokenizer, normalize
from elmo_cli.types import Sentence

UnitKind = Literal["token", "word", "region", "sentence"]
UNIT_KINDS: Final = get_args(UnitKind)
_REGION_MARK: Final = "|"


class Unit(NamedTuple):
    """Part of a text."""

    number: int
    """Position of a token, from 0; or number of another unit, from 1."""
    text: str
    tokens: slice
    """Positions of its tokens."""
    region: "Unit | None" = None
    """Region of a word or token, if the text has regions."""


def ignore_marks(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer for texts with marks of regions, which are no tokens."""

    def tokenize(text: str) -> Sentence:
        return tokenizer.tokenize(text.replace(_REGION_MARK, " "))

    return replace(tokenizer, tokenize=tokenize)


def find_units(kind: UnitKind, text: str, tokens: Sentence) -> list[Unit]:
    """Split the tokens of a text into units, none of which is empty."""
    if kind == "token":
        return [
            Unit(position, token, slice(position, position + 1))
            for position, token in enumerate(tokens)
        ]
    if kind == "sentence":
        return [Unit(1, text, slice(0, len(tokens)))] if tokens else []
    if kind == "word":
        return _align(kind, text.split(), tokens)
    parts = [part.strip() for part in text.split(_REGION_MARK)]
    return _align(kind, parts, tokens)


def units_of(
    kind: UnitKind, record: Record, *, with_regions: bool = False
) -> list[Unit]:
    """Split the tokens of a record into units. Words that the input gives may be empty.

    `with_regions` adds its region to each unit; the text has marks between them then.
    """
    if kind == "word" and record.words:
        return _units_of_spans(record.words)
    if kind == "sentence" and record.sentences:
        return _units_of_spans(record.sentences)
    if not with_regions:
        return find_units(kind, record.text, record.tokens)
    region_of_token = []
    for region in find_units("region", record.text, record.tokens):
        n_tokens = region.tokens.stop - region.tokens.start
        region_of_token += [region] * n_tokens
    text = record.text.replace(_REGION_MARK, " ")
    return [
        unit._replace(region=region_of_token[unit.tokens.start])
        for unit in find_units(kind, text, record.tokens)
    ]


def _units_of_spans(spans: Iterable[Span]) -> list[Unit]:
    units = []
    start = 0
    for number, span in enumerate(spans, start=1):
        stop = start + span.n_tokens
        units.append(Unit(number, span.text, slice(start, stop)))
        start = stop
    return units


def _align(kind: str, parts: Iterable[str], tokens: Sentence) -> list[Unit]:
    """Find the tokens of each part of a text, by visible and normalized characters."""
    units = []
    stop = 0
    for number, part in enumerate(parts, start=1):
        start = stop
        rest = _visible(part)
        while rest:
            token = tokens[stop] if stop < len(tokens) else None
            if token is None or not rest.startswith(_visible(token)):
                raise _not_aligned_error(kind, f"{kind} {number}, {part!r}", token)
            rest = rest[len(_visible(token)) :]
            stop += 1
        if stop > start:
            units.append(Unit(number, part, slice(start, stop)))
    left = "".join(_visible(token) for token in tokens[stop:])
    if left:
        raise _not_aligned_error(kind, "the end of the text", left)
    return units


def _not_aligned_error(kind: str, location: str, token: str | None) -> InputError:
    problem = "has no tokens" if token is None else f"differs from the token {token!r}"
    return InputError(
        Message(
            "{location}: the {kind} {problem}",
            remedy="Choose a {--tokenizer} that changes no characters and joins no "
            "{kind}s.",
            location=location,
            kind=kind,
            problem=problem,
        )
    )


def _visible(text: str) -> str:
    """Return a normalized text without white space and control characters.

    Tokenizers remove both.
    """
    return "".join(
        char
        for char in normalize(text)
        if not char.isspace() and unicodedata.category(char) != "Cc"
    )
