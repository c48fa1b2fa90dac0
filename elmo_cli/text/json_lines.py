"""JSON lines to records: an object a line, with its text or its tokens, and perhaps an id.

    {"id": "a1", "text": "We sat by the river."}
    {"id": "a2", "tokens": ["We", "sat", "by", "the", "river", "."]}

Blank lines are passed over.
Rows of a table are read likewise.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from elmo_cli.text.entries import Entry, checked_records
from elmo_cli.text.lines import InvalidLine, Record, line_record
from elmo_cli.text.tokenizers import Tokenizer


class Fields(NamedTuple):
    """The names of what is read of a row."""

    text: tuple[str, ...] = ("tokens", "text")
    """Of a text or a list of tokens: the first one that is there is taken."""
    key: str | None = "id"


def read_json_lines(
    lines: Iterable[str], name: str, skip_errors: bool, tokenizer: Tokenizer
) -> Iterator[Record]:
    """The records of JSON lines; see `checked_records`.

    Raises:
        InputError: a line is no object, has neither text nor tokens, or an id cannot name a
            dataset, occurs twice, or only some lines have one.
    """
    fields = Fields()
    entries = (
        Entry(number, *json_record(line, fields, tokenizer))
        for number, line in enumerate(lines, start=1)
        if line or isinstance(line, InvalidLine)
    )
    return checked_records(entries, name, skip_errors)


def json_record(line: str, fields: Fields, tokenizer: Tokenizer) -> tuple[Record, str | None]:
    """The record of a line, without tokens if it is blank; and what is wrong with it."""
    if isinstance(line, InvalidLine) or not line:
        return line_record(line), None
    row = None
    with suppress(ValueError, RecursionError):  # which a row of many brackets is
        row = json.loads(line)
    if not isinstance(row, dict):
        return line_record(""), f"expected a JSON object, found {line[:60]}"
    return row_record(row, fields, tokenizer)


def row_record(
    row: Mapping[str, Any], fields: Fields, tokenizer: Tokenizer
) -> tuple[Record, str | None]:
    """The record of a row, whose text may be None for none; and what is wrong with it."""
    key = None if fields.key is None else row.get(fields.key)
    if type(key) is int:
        key = str(key)
    if key is not None and not _is_text(key):
        return line_record(""), f"field {fields.key!r}: expected a text, found {repr(key)[:60]}"
    name = next((name for name in fields.text if name in row), None)
    if name is None:
        wanted = " or ".join(map(repr, fields.text))
        error = f"expected a field {wanted}, found {', '.join(map(repr, row))[:60] or 'none'}"
        return Record("", [], key), error
    text = row[name]
    if text is None or _is_text(text):
        return Record(text or "", tokenizer.cut(text or ""), key), None
    error = f"field {name!r}: expected a text or a list of tokens, found {repr(text)[:60]}"
    if isinstance(text, list) and all(map(_is_text, text)):
        if "" not in text:
            return Record(" ".join(text), text, key), None
        error = f"field {name!r}: expected tokens, found an empty one, number {text.index('') + 1}"
    return Record("", [], key), error


def _is_text(value: object) -> bool:
    """Whether a value is a text of Unicode: JSON can also write halves of characters."""
    return isinstance(value, str) and value.encode("utf-8", "ignore").decode() == value
