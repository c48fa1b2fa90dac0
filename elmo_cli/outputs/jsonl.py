"""JSON lines, an object a record, to a file or to standard output.

    {"number": 0, "sentence": "The cat sat", "activations": [[...], ...]}

with `key` and the attributes of a record that has them (FASTA) in place of `number`.
"""

import json
import re
import sys
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import OutputError
from elmo_cli.outputs.formats import OutputFormat
from elmo_cli.text.lines import Record
from elmo_cli.text.records import shard_of

_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that a float of so many bytes needs to be read back as it was."""


class JsonlWriter:
    """Adds records to an open file."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        self._file = file
        self._forget_sentences = output_format.forget_sentences
        self._shard = shard_of(attributes)

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the line of a record."""
        place = self._shard.place(number)
        facts: dict[str, Any] = {"number": place} if record.key is None else {"key": record.key}
        facts |= record.attributes
        if record.key is None and not self._forget_sentences:
            facts["sentence"] = record.text
        start = json.dumps(facts, ensure_ascii=False)[:-1]
        line = f'{start}, "activations": {_json_numbers(values)}}}\n'
        self._file.write(line.encode("utf-8", "surrogatepass"))

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Nothing belongs at the end."""

    def close(self) -> None:
        """Nothing is open."""


def _json_numbers(values: NDArray[Any]) -> str:
    """An array as nested lists; null for what is no number."""
    if values.ndim > 1:
        return "[" + ", ".join(_json_numbers(part) for part in values) + "]"
    one = f"%.{_DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)


class StandardOutput:
    """Standard output in place of a file: passed on at once, nothing to resume."""

    def write(self, data: bytes, /) -> int:
        """Write, and pass it on at once.

        Raises:
            BrokenPipeError: nobody reads any more.
            OutputError: it cannot be written; a file behind it may have no room.
        """
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = error.strerror or "it is closed"
            raise OutputError(f"standard output: cannot write it: {reason}") from None
        return len(data)
