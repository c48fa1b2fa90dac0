"""Places of annotated words in the texts of a table, as in DWUG.

A row has them in the column `indexes_target_token`, as in `14:18`, or in the columns
`start` and `end`: characters of the text, from 0.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from elmo_cli.records.record import AnnotatedPlace

PLACE_COLUMNS: Final = ("indexes_target_token", "start", "end")
_TOKENIZED: Final = "_tokenized"
"""End of the names of columns in DWUG whose texts have other characters."""
_INDEXES: Final = re.compile(r"\s*([0-9]+)\s*:\s*([0-9]+)\s*")


def find_place(fields: Mapping[str, Any], text_column: str) -> AnnotatedPlace | None:
    """Return the place of the annotated word of a row; None if the row has none."""
    indexes = fields.get("indexes_target_token")
    if indexes and not text_column.endswith(_TOKENIZED):
        match = _INDEXES.fullmatch(str(indexes))
        if match is None:
            return AnnotatedPlace(0, 0, is_certain=True)
        return AnnotatedPlace(int(match[1]), int(match[2]), is_certain=True)
    start = _integer(fields.get("start"))
    end = _integer(fields.get("end"))
    if start is None or end is None:
        return None
    # Other tables have times in columns of these names.
    return AnnotatedPlace(start, end, is_certain=False)


def _integer(value: object) -> int | None:
    """Return a number of a cell; None for an empty cell, a fraction or a text."""
    with suppress(ValueError):
        number = float(str(value))  # pandas writes 2.0 if there are empty cells.
        if number.is_integer() and number >= 0:
            return int(number)
    return None
