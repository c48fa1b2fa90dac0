"""JSON lines: one object per line, with its text or its tokens, perhaps with an id.

{"id": "a1", "text": "We sat by the river."}
{"id": "a2", "tokens": ["We", "sat", "by", "the", "river", "."]}
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from elmo_cli.errors.messages import Message
from elmo_cli.options.text import TextSettings
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.input_rows import InputRow, RowFormat
from elmo_cli.text.line_reader import Line
from elmo_cli.text.sources import Source

_BEGINNING: Final = re.compile(r'\{"[^"]*" ?:')


class JsonLines(RowFormat):
    """Objects, one per line."""

    name = "jsonl"
    unit = "record"
    suffixes = (".jsonl", ".ndjson")
    has_parts = True

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether the first line is an object with fields."""
        if not lines[0].startswith('{"'):
            return False
        try:
            fields = json.loads(lines[0])
        except (ValueError, RecursionError):
            # A long line is cut off, so it is not valid JSON.
            return _BEGINNING.match(lines[0]) is not None
        return isinstance(fields, dict)

    def rows(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[InputRow]:
        """Yield the objects. Blank lines are ignored."""
        for line in lines:
            if line.error is not None:
                yield InputRow(line.number, unreadable=line.error)
            elif line.text:
                try:
                    fields = json.loads(line.text)
                except (ValueError, RecursionError):
                    # Deeply nested JSON raises a RecursionError.
                    fields = None
                if isinstance(fields, dict):
                    yield InputRow(line.number, fields)
                else:
                    found = line.text[:60]
                    yield InputRow(
                        line.number, problem=no_object_error(found, "line", text_input)
                    )

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the fields of the first object."""
        return names_of_first_object(source)


def no_object_error(found: str, unit: str, text_input: TextInput) -> Message:
    """Return the error of a line or record that is no object; `unit` says which."""
    remedies = [f"Correct the {unit}."]
    if not text_input.settings.skip_errors:
        remedies = [f"Correct the {unit}, or use {{--skip-errors True}}.", *remedies]
    return Message(f"expected a JSON object, found {found}", remedy=remedies)


def names_of_first_object(source: Source) -> list[str]:
    """Return the fields of the first object in the head of a source, if any."""
    head = source.head or source.first_line
    content = head.decode("utf-8-sig", "replace").lstrip("[ \r\n")
    # Errors are reported when the input is read.
    with suppress(ValueError, RecursionError):
        value: Any = json.JSONDecoder().raw_decode(content)[0]
        if isinstance(value, dict):
            return list(value)
    return []
