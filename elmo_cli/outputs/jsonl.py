"""JSON lines, an object a record, to a file or to standard output.

{"number": 0, "sentence": "The cat sat", "activations": [[...], ...]}
"""

import json
import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import FormatWriter
from elmo_cli.text.lines import Record

_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that a float of so many bytes needs to be read back as it was."""


class JsonlWriter(FormatWriter):
    """Adds records to an open file, each passed on at once."""

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the line of a record."""
        facts = self._facts(number, record)
        start = json.dumps(facts, ensure_ascii=False)[:-1]
        line = f'{start}, "activations": {_json_numbers(values)}}}\n'
        self._file.write(line.encode("utf-8", "surrogatepass"))
        self._file.flush()


def _json_numbers(values: NDArray[Any]) -> str:
    """An array as nested lists; null for what is no number."""
    if values.ndim > 1:
        return "[" + ", ".join(_json_numbers(part) for part in values) + "]"
    one = f"%.{_DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)
