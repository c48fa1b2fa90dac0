"""Attributes of a record in a file of vectors."""

from typing import Any, Final

from elmo_cli.records.record import Record

LINE: Final = "line"
"""Line from which a sentence was split, from 0."""
ORIGINAL_ID: Final = "original_id"
"""Whole header of a sequence. bio_embeddings uses the same name."""


def stored_attributes(record: Record) -> dict[str, Any]:
    """Return the attributes of a record, with what its input says about it."""
    attributes: dict[str, Any] = {}
    if record.original_id is not None:
        attributes[ORIGINAL_ID] = record.original_id
    if record.line is not None:
        attributes[LINE] = record.line - 1
    attributes.update(record.attributes)
    return attributes
