"""Units of a sentence whose surprisals are added: its tokens, its words or its regions.

words      separated by white space in the text: `didn` and `'t` are the word `didn't`
regions    separated by `|` in the text: `The horse | raced past the barn | fell.`
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal, NamedTuple, get_args

from elmo_cli.errors import InputError
from elmo_cli.text.records import Sentence
from elmo_cli.text.tokenizers import Tokenizer

UnitKind = Literal["token", "word", "region"]
UNIT_KINDS: Final = get_args(UnitKind)
REGION_MARK: Final = "|"


class Unit(NamedTuple):
    """Part of a sentence."""

    number: int
    """Position of a token, from 0; or number of a word or region, from 1."""
    text: str
    tokens: slice
    """Positions of its tokens."""


def without_marks(text: str) -> str:
    """Return a text with a space in place of each mark of a region."""
    return text.replace(REGION_MARK, " ")


def ignore_marks(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer for texts with marks of regions, which are no tokens."""
    tokenize = tokenizer.tokenize
    return replace(tokenizer, tokenize=lambda text: tokenize(without_marks(text)))


def find_units(kind: UnitKind, text: str, tokens: Sentence) -> list[Unit]:
    """Split the tokens of a sentence into units, none of which is empty.

    Args:
        kind: One of `UNIT_KINDS`.
        text: Text of the sentence, with the marks of its regions.
        tokens: Its tokens.

    Raises:
        InputError: A token belongs to two units, or differs from the text.
    """
    if kind == "token":
        return [
            Unit(position, token, slice(position, position + 1))
            for position, token in enumerate(tokens)
        ]
    parts = text.split() if kind == "word" else map(str.strip, text.split(REGION_MARK))
    return _align(kind, parts, tokens)


def _align(kind: str, parts: Iterable[str], tokens: Sentence) -> list[Unit]:
    """Find the tokens of each part of a text, by their visible characters."""
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
    actual = "none" if token is None else repr(token)
    return InputError(
        f"{location}: expected the tokens of the {kind}, found {actual}. "
        f"Choose a --tokenizer that changes no characters and joins no {kind}s."
    )


def _visible(text: str) -> str:
    """Return a text without white space and control characters, which tokenizers remove."""
    return "".join(
        char for char in text if not char.isspace() and unicodedata.category(char) != "Cc"
    )
