"""Attributes of a record in a file of vectors."""

from collections.abc import Mapping
from typing import Any, Final

from elmo_cli.outputs.attributes import with_types
from elmo_cli.records.record import Record

LINE_INDEX: Final = "line_index"
"""Line from which a sentence was split, from 0."""
_OLD_LINE_INDEX: Final = "line"
ORIGINAL_ID: Final = "original_id"
"""Whole header of a sequence. bio_embeddings uses the same name."""


def stored_attributes(record: Record) -> dict[str, Any]:
    """Return the attributes of a record, with what its input says about it."""
    attributes: dict[str, Any] = {}
    if record.original_id is not None:
        attributes[ORIGINAL_ID] = record.original_id
    if record.line is not None:
        attributes[LINE_INDEX] = record.line - 1
    attributes.update(record.attributes)
    return attributes


def read_attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a record from what a file stores, perhaps an old one."""
    attributes = with_types(stored)
    if _OLD_LINE_INDEX in attributes:
        attributes[LINE_INDEX] = int(attributes.pop(_OLD_LINE_INDEX))
    return attributes


def line_of(attributes: Mapping[str, Any]) -> int | None:
    """Return the line that the attributes of a record tell, from 1, or None."""
    index = attributes.get(LINE_INDEX)
    return index + 1 if isinstance(index, int) else None
