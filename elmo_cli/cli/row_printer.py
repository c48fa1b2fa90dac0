"""Rows on standard output, as CSV, TSV or JSON lines.

A cell with a quote, a tab, a comma or a line end is quoted, so that pandas (`read_csv`)
and R (`read.csv`, `read.delim`) find every row. A missing value is an empty cell, and
an empty text is `""`. Quoting does not help for `NA`, `null` and `None`, which pandas
reads as missing: `RowPrinter.like_missing` counts them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Final

import click

from elmo_cli.cli import stderr
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted
from elmo_cli.files.json_form import json_text
from elmo_cli.records.columns import renamed_columns

ROW_FORMATS: Final = ("tsv", "csv", "jsonl")
_DELIMITERS: Final = {"tsv": "\t", "csv": ",", "jsonl": None}
_MISSING_WORDS = "<NA> N/A NA NULL NaN None n/a nan null"
_MISSING_MARKS = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN"
LIKE_MISSING: Final = frozenset(
    [*_MISSING_WORDS.split(), *_MISSING_MARKS.split(), "#N/A N/A"]
)
"""Texts that pandas reads as missing, quoted or not. R reads only `NA` as missing."""
_NEEDS_QUOTES: Final = {
    delimiter: re.compile(rf"""["\r\n{delimiter}]|^$|^\s|\s$""")
    for delimiter in (",", "\t")
}
"""Texts that are quoted as cells, by the delimiter of the table."""
_NO_COLUMNS: Final[Mapping[str, object]] = MappingProxyType({})


@contextmanager
def open_row_printer(
    row_format: str | None,
    columns: Sequence[str],
    input_columns: Mapping[str, object] = _NO_COLUMNS,
) -> Iterator["RowPrinter"]:
    """Open a printer of rows for standard output in a format; TSV by default.

    The header has `input_columns` if there are no rows. At the end, warn about texts
    that pandas or R would read as missing.
    """
    rows = RowPrinter(partial(click.echo, nl=False), row_format or "tsv", columns)
    yield rows
    if rows.input_names is None:  # There were no rows.
        rows.write([], input_columns)
    texts = rows.like_missing
    if texts:
        examples = " and ".join(repr(text) for text, _ in texts.most_common(3))
        stderr.warn(
            f"pandas or R would read {counted(texts.total(), 'text')} such as "
            f"{examples} as missing",
            'Use read_csv(..., keep_default_na=False, na_values=[""]) in pandas, '
            'na.strings="" in R, or {--format jsonl}.',
        )


class RowPrinter:
    """Printer of rows with the same columns."""

    def __init__(
        self, write: Callable[[str], object], row_format: str, columns: Sequence[str]
    ) -> None:
        """Make a printer that calls `write` with the lines of some rows at a time."""
        self._write = write
        self._columns = columns
        self._delimiter = _DELIMITERS[row_format]
        self.input_names: list[str] | None = None
        """Columns of the input in the header of CSV and TSV, once it is written."""
        self.like_missing: Counter[str] = Counter()
        """Computed texts that pandas or R reads as missing, with their numbers."""

    def write(
        self,
        rows: Iterable[Sequence[object]],
        input_columns: Mapping[str, object] = _NO_COLUMNS,
        names: Sequence[object] = (),
    ) -> None:
        """Write rows, and before the first one the header.

        Each row repeats `names`, which are its first values, and the columns of the
        input; see `renamed_columns`. CSV and TSV cannot hold a column that the first
        rows lack.
        """
        full_rows = [[*names, *row] for row in rows]
        if self._delimiter is None:
            lines = self._json_lines(full_rows, input_columns)
        else:
            lines = self._table_lines(full_rows, input_columns, self._delimiter)
        text = "".join(lines)
        if text:
            self._write(text)

    def _json_lines(
        self, rows: Iterable[Sequence[object]], input_columns: Mapping[str, object]
    ) -> Iterator[str]:
        for row in rows:
            values = dict(zip(self._columns, row, strict=True))
            new_names = renamed_columns(input_columns, taken=values)
            for name, value in input_columns.items():
                values[new_names[name]] = value
            yield json_text(values) + "\n"

    def _table_lines(
        self,
        rows: Iterable[Sequence[object]],
        input_columns: Mapping[str, object],
        delimiter: str,
    ) -> Iterator[str]:
        if self.input_names is None:
            self.input_names = list(input_columns)
            new_names = renamed_columns(input_columns, taken=self._columns)
            names = [*self._columns, *new_names.values()]
            cells = [_quoted(name, delimiter) for name in names]
            yield delimiter.join(cells) + "\n"
        unknown = input_columns.keys() - set(self.input_names)
        if unknown:
            raise InputError(
                f"column {min(unknown)!r}: the first record does not have it",
                remedy=[
                    "Use {--format jsonl}, or name the columns with {--keep-columns}.",
                    "Use {--format jsonl}.",
                ],
            )
        last = [
            _exact_cell(input_columns.get(name), delimiter) for name in self.input_names
        ]
        for row in rows:
            for value in row:
                if isinstance(value, str) and value in LIKE_MISSING:
                    self.like_missing[value] += 1
            cells = [cell(value, delimiter) for value in row]
            yield delimiter.join([*cells, *last]) + "\n"


def cell(value: object, delimiter: str = "\t") -> str:
    """Return a value as a cell. A float has six decimals, or near 0 six digits."""
    if isinstance(value, float):
        return f"{value:.6g}" if 0 < abs(value) < 1e-3 else f"{value:.6f}"
    return _exact_cell(value, delimiter)


def _exact_cell(value: object, delimiter: str) -> str:
    """Return a value as a cell, from which it can be read back."""
    if value is None:
        return ""
    if isinstance(value, int):  # also a bool
        return str(int(value))
    if isinstance(value, (list, tuple, dict)):
        return _quoted(json_text(value), delimiter)
    return _quoted(str(value), delimiter)


def _quoted(text: str, delimiter: str) -> str:
    """Return a text as a cell of CSV or TSV, in quotes if it needs them."""
    if _NEEDS_QUOTES[delimiter].search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
