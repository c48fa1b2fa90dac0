"""Units of a text whose surprisal is measured: tokens, words or regions."""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import Tokenizer, normalize

UnitKind = Literal["token", "word", "region"]


_REGION_MARK: Final = "|"


class Unit(NamedTuple):
    """Part of a sentence."""

    number: int
    """Position of a token, from 0; or number of a word or region, from 1."""
    text: str
    tokens: slice
    """Positions of its tokens."""
    region: "Unit | None" = None
    """Region of a word, if the text has regions."""


def ignore_marks(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer for texts with marks of regions, which are no tokens."""
    tokenize = tokenizer.tokenize
    return replace(
        tokenizer, tokenize=lambda text: tokenize(text.replace(_REGION_MARK, " "))
    )


def find_units(kind: UnitKind, text: str, tokens: Sentence) -> list[Unit]:
    """Split the tokens of a sentence into units, none of which is empty."""
    if kind == "token":
        return [Unit(n, token, slice(n, n + 1)) for n, token in enumerate(tokens)]
    parts = text.split() if kind == "word" else map(str.strip, text.split(_REGION_MARK))
    return _align(kind, parts, tokens)


def units_of(
    kind: UnitKind, record: Record, *, with_regions: bool = False
) -> list[Unit]:
    """Split the tokens of a record into units. Words that the input gives may be empty."""
    text, tokens = record.text, record.tokens
    if kind == "word" and record.words:
        ends = list(accumulate(word.n_tokens for word in record.words))
        return [
            Unit(number, word.text, slice(end - word.n_tokens, end))
            for number, (word, end) in enumerate(
                zip(record.words, ends, strict=True), start=1
            )
        ]
    if not with_regions:
        return find_units(kind, text, tokens)
    regions = find_units("region", text, tokens)
    of_token = [
        region for region in regions for _ in range(*region.tokens.indices(len(tokens)))
    ]
    words = find_units(kind, text.replace(_REGION_MARK, " "), tokens)
    return [word._replace(region=of_token[word.tokens.start]) for word in words]


def _align(kind: str, parts: Iterable[str], tokens: Sentence) -> list[Unit]:
    """Find the tokens of each part of a text, by their visible and normalized characters."""
    units: list[Unit] = []
    stop = 0
    for number, part in enumerate(parts, start=1):
        start, rest = stop, _visible(part)
        while rest:
            token = tokens[stop] if stop < len(tokens) else None
            if token is None or not rest.startswith(_visible(token)):
                raise _not_aligned(kind, f"{kind} {number}, {part!r}", token)
            rest, stop = rest[len(_visible(token)) :], stop + 1
        if stop > start:
            units.append(Unit(number, part, slice(start, stop)))
    if left := "".join(map(_visible, tokens[stop:])):
        raise _not_aligned(kind, "the end of the text", left)
    return units


def _not_aligned(kind: str, location: str, token: str | None) -> InputError:
    actual = "has no tokens" if token is None else f"differs from the token {token!r}"
    return InputError(
        f"{location}: the {kind} {actual}. "
        f"Choose a --tokenizer that changes no characters and joins no {kind}s."
    )


def _visible(text: str) -> str:
    """Return a normalized text without white space and control characters, as tokenizers do."""
    return "".join(
        char
        for char in normalize(text)
        if not char.isspace() and unicodedata.category(char) != "Cc"
    )
