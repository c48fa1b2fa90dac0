"""Writer for JSON lines."""

import re

import numpy as np

from elmo_cli.files.json_form import json_text
from elmo_cli.outputs.vector_rows import DIGITS, Array, RowWriter
from elmo_cli.records.record import Record


class JsonlWriter(RowWriter):
    """Writer of lines, flushed after each record: {"index": 0, "sentence": "a", ...}."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the lines of a record."""
        rows = self.rows.of(number, record, values)
        columns = rows.own | rows.kept
        for index, row in enumerate(zip(*columns.values(), strict=True)):
            line = json_text(dict(zip(columns, row, strict=True)))[:-1]
            for name, arrays in rows.vectors.items():
                line += f', "{name}": {json_numbers(arrays[index])}'
            self._file.write(f"{line}}}\n".encode("utf-8", "surrogatepass"))
        self._file.flush()


def json_numbers(values: Array) -> str:
    """Return an array as nested lists of JSON, with null for infinity and NaN."""
    if values.ndim > 1:
        return "[" + ", ".join(json_numbers(part) for part in values) + "]"
    one = f"%.{DIGITS[values.itemsize]}g"
    text = "[" + ", ".join([one] * len(values)) % tuple(values.tolist()) + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)
