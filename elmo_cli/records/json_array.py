"""JSON arrays of objects, which are read as a whole."""

import json
from collections.abc import Iterable, Iterator

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import TableError, row_record
from elmo_cli.records.record import Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer


def json_array_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the objects of a JSON array, given as lines with their ends."""
    parts = list(lines)
    if error := next(
        (line.error for line in parts if isinstance(line, InvalidLine)), None
    ):
        raise InputError(error)
    text = "".join(parts)
    if (first := text.lstrip()[:1]) != "[":
        remedy = "If each line is an object, use --input-format jsonl."
        raise TableError(f"expected a JSON array of objects, found {first!r}. {remedy}")
    try:
        rows = json.loads(text)
    except RecursionError:
        raise TableError("not valid JSON: too many nested brackets") from None
    except json.JSONDecodeError as reason:
        location = f"line {reason.lineno}, column {reason.colno}"
        raise TableError(f"not valid JSON ({location}): {reason.msg}") from None
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield Entry(number, *row_record(row, settings, tokenizer))
        else:
            error = f"expected a JSON object, found {json.dumps(row)[:60]}"
            yield Entry(number, Record("", []), error)
