"""Places of annotated words in the texts of a table.

A row has them in one of these columns, as characters of its text, from 0:

- `indexes_target_token`, as in DWUG: `14:18`
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

from elmo_cli.options.text import TEXT_COLUMN
from elmo_cli.records.record import AnnotatedPlace

PLACE_COLUMNS: Final = ("indexes_target_token", "start", "end", "spans", "ents")
_TOKENIZED: Final = "_tokenized"
"""End of the names of columns in DWUG whose texts have other characters."""
_INDEXES: Final = re.compile(r"\s*([0-9]+)\s*:\s*([0-9]+)\s*")


def find_places(
    fields: Mapping[str, Any], text_column: str, text: str
) -> list[AnnotatedPlace]:
    """Return the places of the annotated words of a row.

    Args:
        fields: Values by the names of their columns.
        text_column: Column of the text or the list of tokens that is read.
        text: Its text, or its tokens joined by spaces.
    """
    whole_text = fields.get(TEXT_COLUMN)
    if isinstance(fields.get(text_column), list) and isinstance(whole_text, str):
        text = whole_text
    indexes = fields.get("indexes_target_token")
    if indexes and not text_column.endswith(_TOKENIZED):
        match = _INDEXES.fullmatch(str(indexes))
        start, end = (0, 0) if match is None else (int(match[1]), int(match[2]))
        return [AnnotatedPlace(text, start, end, is_certain=True)]
    spans = fields.get("spans") or fields.get("ents")
    places = []
    for span in [fields, *(spans if isinstance(spans, list) else [])]:
        if not isinstance(span, Mapping):
            continue
        start_of_span = _integer(span.get("start"))
        end_of_span = _integer(span.get("end"))
        if start_of_span is not None and end_of_span is not None:
            # Other tables have times in columns of these names.
            place = AnnotatedPlace(text, start_of_span, end_of_span, is_certain=False)
            places.append(place)
    return places


def _integer(value: object) -> int | None:
    """Return a number of a cell; None for an empty cell, a fraction or a text."""
    with suppress(ValueError):
        number = float(str(value))  # pandas writes 2.0 if there are empty cells.
        if number.is_integer() and number >= 0:
            return int(number)
    return None
