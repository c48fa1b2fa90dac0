"""Writer for JSON lines."""

import re
from typing import Final

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.files.json_form import json_text
from elmo_cli.outputs.row_writer import RowWriter
from elmo_cli.records.record import Record

_DIGITS: Final = {2: 5, 4: 9}
"""Decimal digits that read a float back, by its bytes."""


class JsonlWriter(RowWriter):
    """Writer of lines such as {"index": 0, "sentence": "a"}, flushed at each record."""

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Add the lines of a record."""
        rows = self.rows.of(index, record, values)
        columns = rows.own | rows.kept
        for row, values_of_row in enumerate(zip(*columns.values(), strict=True)):
            fields = dict(zip(columns, values_of_row, strict=True))
            line = json_text(fields).removesuffix("}")
            for name, vectors in rows.vectors.items():
                line += f', "{name}": {_json_numbers(vectors[row])}'
            self._file.write(f"{line}}}\n".encode("utf-8", "surrogatepass"))
        self._file.flush()


def _json_numbers(values: AnyArray) -> str:
    """Return an array as nested lists of JSON, with null for infinity and NaN."""
    if values.ndim > 1:
        parts = ", ".join(_json_numbers(part) for part in values)
        return f"[{parts}]"
    # One call of % is faster than one per number.
    number = f"%.{_DIGITS[values.itemsize]}g"
    template = ", ".join([number] * len(values))
    numbers = template % tuple(values.tolist())
    if not np.isfinite(values).all():
        numbers = re.sub("-?(inf|nan)", "null", numbers)
    return f"[{numbers}]"
