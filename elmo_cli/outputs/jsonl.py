"""JSON lines, an object a record, to a file or to standard output.

    {"number": 0, "sentence": "The cat sat", "activations": [[...], ...]}

with `key` and the attributes of a record that has them (FASTA) in place of `number`, and with
`tokens` where white space does not separate them.
"""

import json
import re
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import FormatWriter, OutputFormat
from elmo_cli.text.lines import Record
from elmo_cli.text.records import LINE

_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that a float of so many bytes needs to be read back as it was."""


class JsonlWriter(FormatWriter):
    """Adds records to an open file, each passed on at once."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        self._file = file
        self._form, self._attributes = output_format, attributes

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the line of a record."""
        facts = record_facts(number, record, self._form, self._attributes)
        start = json.dumps(facts, ensure_ascii=False)[:-1]
        line = f'{start}, "activations": {_json_numbers(values)}}}\n'
        self._file.write(line.encode("utf-8", "surrogatepass"))
        self._file.flush()


def record_facts(
    number: int, record: Record, output_format: OutputFormat, attributes: Mapping[str, str]
) -> dict[str, Any]:
    """What an output with these attributes says of a record beside its values."""
    facts: dict[str, Any] = {"number": number} if record.key is None else {"key": record.key}
    facts |= record.attributes
    if LINE in facts:
        facts[LINE] = int(facts[LINE])
    if not output_format.forget_sentences:
        facts["sentence"] = record.text
    if output_format.keeps_tokens(attributes):
        facts["tokens"] = record.tokens
    return facts


def _json_numbers(values: NDArray[Any]) -> str:
    """An array as nested lists; null for what is no number."""
    if values.ndim > 1:
        return "[" + ", ".join(_json_numbers(part) for part in values) + "]"
    one = f"%.{_DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)
