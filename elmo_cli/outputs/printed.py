"""Rows of a table as CSV, TSV or JSON lines, for pandas, R, polars and DuckDB.

CSV and TSV have a header. A cell with a quote, a tab, a comma or a line end is quoted, and quotes
are doubled: the default readers of pandas (`read_csv`) and R (`read.csv`, `read.delim`) find every
row. A missing value is an empty cell. An empty text is `""`.

No quoting helps with texts such as `NA`, `null` and `None`: pandas and R read the former as missing
by default, and pandas the latter ones too. `RowWriter.like_missing` counts them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.text.records import renamed_columns

ROW_FORMATS: Final = ("tsv", "csv", "json")
LIKE_MISSING: Final = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
"""Texts that pandas reads as missing, quoted or not. R reads `NA` so."""
_QUOTED: Final = re.compile(r"""[",\t\r\n]|^$|^\s|\s$""")
_NO_COLUMNS: Final[Mapping[str, object]] = MappingProxyType({})


class RowWriter:
    """Writer of rows with the same columns."""

    def __init__(
        self, write: Callable[[str], object], row_format: str, columns: Sequence[str]
    ) -> None:
        """Make a writer.

        Args:
            write: Called with the lines of the rows that are written together.
            row_format: One of `ROW_FORMATS`.
            columns: Names of the computed columns.
        """
        self._write, self._columns = write, columns
        self._delimiter = {"tsv": "\t", "csv": ",", "json": None}[row_format]
        self._input_names: list[str] | None = None
        self.like_missing: Counter[str] = Counter()
        """Computed texts that pandas or R reads as missing, with their numbers."""

    def write(
        self, rows: Iterable[Sequence[object]], input_columns: Mapping[str, object] = _NO_COLUMNS
    ) -> None:
        """Write rows, and before the first one the header.

        Args:
            rows: Values of the computed columns.
            input_columns: Columns of the input, which each of these rows repeats; see
                `renamed_columns`.

        Raises:
            InputError: CSV or TSV cannot hold a column that the first rows do not have.
        """
        if self._delimiter is None:
            names = renamed_columns(input_columns, self._columns)
            last = {names[name]: value for name, value in input_columns.items()}
            lines = [
                json_line(dict(zip(self._columns, row, strict=True)) | last) + "\n" for row in rows
            ]
        else:
            lines = list(self._table_lines(rows, input_columns, self._delimiter))
        if lines:
            self._write("".join(lines))

    def finish(self) -> None:
        """Write the header if there were no rows."""
        self.write([])

    def _table_lines(
        self, rows: Iterable[Sequence[object]], input_columns: Mapping[str, object], delimiter: str
    ) -> Iterator[str]:
        if self._input_names is None:
            self._input_names = list(input_columns)
            names = [*self._columns, *renamed_columns(input_columns, self._columns).values()]
            yield delimiter.join(map(quoted, names)) + "\n"
        if other := input_columns.keys() - set(self._input_names):
            raise InputError(
                f"column {min(other)!r}: the first record does not have it. Use --format json, or "
                "name the columns with --keep-columns."
            )
        last = [_exact(input_columns.get(name)) for name in self._input_names]
        for row in rows:
            self.like_missing.update(
                value for value in row if isinstance(value, str) and value in LIKE_MISSING
            )
            yield delimiter.join([*map(cell, row), *last]) + "\n"


def json_line(value: object) -> str:
    """Return a value as one line of JSON. Dates and other values of Parquet become texts."""
    return json.dumps(value, ensure_ascii=False, default=str)


def cell(value: object) -> str:
    """Return a computed value as a cell: None is empty, False 0, and a float has six decimals.

    A float near 0 has six significant digits.
    """
    if isinstance(value, float):
        return f"{value:.6g}" if 0 < abs(value) < 1e-3 else f"{value:.6f}"
    return _exact(value)


def _exact(value: object) -> str:
    """Return a value as a cell, from which it can be read back."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple, dict)):
        return quoted(json_line(value))
    return quoted(str(value))


def quoted(text: str) -> str:
    """Return a text as a cell of CSV and TSV, in quotes if it needs them."""
    if not _QUOTED.search(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
