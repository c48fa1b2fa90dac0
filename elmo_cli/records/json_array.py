"""A JSON array of objects, which is read as a whole."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import json_problem
from elmo_cli.options.text import TextSettings
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.input_rows import InputRow, RowFormat
from elmo_cli.records.json_lines import names_of_first_object, no_object_error
from elmo_cli.text.line_reader import Line
from elmo_cli.text.sources import Source

_BEGINNING: Final = re.compile(r"\[\s*\{\s*\"")


class JsonArray(RowFormat):
    """Array of objects."""

    name = "json"
    unit = "record"
    suffixes = (".json",)
    number_unit = "record"
    keeps_ends = True

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether the lines begin an array of objects."""
        return _BEGINNING.match("\n".join(lines)) is not None

    def rows(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[InputRow]:
        """Yield the objects of the array, given as lines with their ends."""
        parts: list[str] = []
        for line in lines:
            if line.error is not None:
                raise InputError(line.error)
            parts.append(line.text)
        content = "".join(parts)
        beginning = content.lstrip()[:1]
        if beginning != "[":
            problem = Message(
                f"expected a JSON array of objects, found {beginning!r}",
                remedy="If each line is an object, use {--input-format jsonl}.",
            )
            raise InputError(text_input.error(problem))
        try:
            array = json.loads(content)
        except (ValueError, RecursionError) as error:
            problem = Message(json_problem(error), remedy="Correct the file.")
            raise InputError(text_input.error(problem)) from None
        for number, value in enumerate(array, start=1):
            if isinstance(value, dict):
                yield InputRow(number, value)
            else:
                found = json.dumps(value)[:60]
                yield InputRow(
                    number, problem=no_object_error(found, "record", text_input)
                )

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the fields of the first object."""
        return names_of_first_object(source)
