"""Places of annotated words in the texts of a table.

A row has them in one of these columns, as characters of its text, from 0:

- `indexes_target_token`, as in DWUG: `14:18`. Its tokenized texts have the position of
  the token in `indexes_target_token_tokenized` instead, and `lemma` names the word
- `start` and `end`
- `spans`, as in Prodigy, or `ents`, as in spaCy: a list of objects with `start` and
  `end`

If the row has a list of tokens as well as a `text`, the characters are those of the
text, and else those of the tokens joined by spaces.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import TEXT_COLUMN
from elmo_cli.records.record import AnnotatedPlace

_INDEXES_COLUMN: Final = "indexes_target_token"
_POSITION_COLUMN: Final = "indexes_target_token_tokenized"
_LEMMA_COLUMN: Final = "lemma"
PLACE_COLUMNS: Final = (
    _INDEXES_COLUMN,
    _POSITION_COLUMN,
    _LEMMA_COLUMN,
    "start",
    "end",
    "spans",
    "ents",
)
_TOKENIZED: Final = ("_tokenized", "_lemmatized")
"""Ends of the names of columns in DWUG with tokens between spaces."""
_INDEXES: Final = re.compile(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,9})\s*")


def find_places(
    fields: Mapping[str, Any], text_column: str, text: str
) -> list[AnnotatedPlace]:
    """Return the places of the annotated words of a row.

    Args:
        fields: Values by the names of their columns.
        text_column: Column of the text or the list of tokens that is read.
        text: Its text, or its tokens joined by spaces.

    Raise an `InputError` for a `start` without an `end`, or the reverse.
    """
    whole_text = fields.get(TEXT_COLUMN)
    if isinstance(fields.get(text_column), list) and isinstance(whole_text, str):
        text = whole_text
    lemma = fields.get(_LEMMA_COLUMN)
    if text_column.endswith(_TOKENIZED):
        position = _integer(fields.get(_POSITION_COLUMN))
        if position is not None:
            return [_place_of_token(text, position)._replace(lemma=lemma)]
    elif fields.get(_INDEXES_COLUMN):
        place = _place_of_indexes(text, indexes=str(fields[_INDEXES_COLUMN]))
        return [place._replace(lemma=lemma)]
    spans = fields.get("spans") or fields.get("ents")
    places = []
    for span in [fields, *(spans if isinstance(spans, list) else [])]:
        start = None
        end = None
        if isinstance(span, Mapping):
            start = _integer(span.get("start"))
            end = _integer(span.get("end"))
            # Other tables have a time in only one of these columns.
            if span is not fields or {"start", "end"} <= span.keys():
                _check_is_whole(span)
        if start is not None and end is not None:
            # Other tables have times in columns of these names.
            places.append(AnnotatedPlace(text, start, end, is_certain=False))
    return places


def half_place_error(given: str, missing: str) -> InputError:
    """Return the error for a place that has one of its ends, by their names."""
    article = "an" if given.startswith("end") else "a"
    return InputError(
        f"the word has {article} {given!r}, but no {missing!r}",
        remedy=f"Add the {missing}, or remove the {given}.",
    )


def _check_is_whole(span: Mapping[str, Any]) -> None:
    """Raise an `InputError` if a place has a number as one end, and no other end."""
    for given, missing in (("start", "end"), ("end", "start")):
        has_no_other = span.get(missing) in (None, "")
        if has_no_other and _integer(span.get(given)) is not None:
            raise half_place_error(given, missing)


def _place_of_indexes(text: str, indexes: str) -> AnnotatedPlace:
    """Return a place that is written as `14:18`."""
    match = _INDEXES.fullmatch(indexes)
    if match is None:
        return AnnotatedPlace(text, start=0, end=0, is_certain=True)
    start = int(match[1])
    end = int(match[2])
    return AnnotatedPlace(text, start, end, is_certain=True)


def _place_of_token(text: str, position: int) -> AnnotatedPlace:
    """Return the place of a token between spaces, by its position from 0."""
    tokens = list(re.finditer(r"\S+", text))
    if position >= len(tokens):
        return AnnotatedPlace(text, start=0, end=0, is_certain=True)
    return AnnotatedPlace(text, *tokens[position].span(), is_certain=True)


def _integer(value: object) -> int | None:
    """Return a number of a cell; None for an empty cell, a fraction or a text."""
    with suppress(ValueError):
        number = float(str(value))  # pandas writes 2.0 if there are empty cells.
        if number.is_integer() and number >= 0:
            return int(number)
    return None
