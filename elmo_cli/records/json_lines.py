"""JSON lines: one object per line, with its text or its tokens."""

import json
from collections.abc import Iterable, Iterator

from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import row_record
from elmo_cli.records.record import Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer


def json_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the records of JSON lines. Blank lines are ignored."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, InvalidLine):
            yield Entry(number, Record("", [], error=line.error))
        elif line:
            try:
                row = json.loads(line)
            except (
                ValueError,
                RecursionError,
            ):  # Deeply nested JSON raises RecursionError.
                row = None
            if isinstance(row, dict):
                yield Entry(number, *row_record(row, settings, tokenizer))
            else:
                yield Entry(
                    number, Record("", []), f"expected a JSON object, found {line[:60]}"
                )
