"""CSV and TSV: tables of lines, whose header names the columns.

The header also shows the delimiter, unless an option or a line `sep=;` names it.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import Columns, choose_columns, named_columns
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.input_rows import InputRow, record_of_row
from elmo_cli.records.missing_header import missing_header_error
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.sources import Source

_DELIMITERS: Final = (",", ";", "\t", "|")
_SEP_LINE: Final = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""Line before the header that names the delimiter, as Excel reads it."""
_SPACED_QUOTES: Final = re.compile(r'(?:^|\t)(" [^"\t]* ")(?=[\t\r\n]|$)')
"""Cell of TSV in quotes that are probably tokens of its text."""


class Delimited(InputFormat):
    """Table with a header. A class below it has the usual delimiter of its format."""

    unit = "row"
    tokens_are_stored = True
    has_columns = True
    lists_columns = True
    has_cells = True
    keeps_ends = True
    splits_at_cr = True
    usual_delimiter: str

    def parse(
        self, lines: Iterable[str], text: TextInput, first: int = 1
    ) -> Iterator[Record]:
        """Yield the records of the rows, given as lines with their ends."""
        rows = _read_cells(lines, text.settings, self.usual_delimiter, first)
        header = next(rows, None)
        if header is None:
            return
        if header.unreadable is not None:
            raise InputError(text.error(header.unreadable))
        if header.problem is not None:
            problem = Message("the header is {problem}", problem=header.problem)
            raise InputError(text.error(problem))
        names = header.cells
        if text.settings.no_header:
            names = _numbers_of_columns(header.cells)
            rows = chain([header], rows)
        columns = _choose_columns(names, text)
        for cell_row in rows:
            problem_of_row: Message | str | None = cell_row.problem
            if problem_of_row is None and len(cell_row.cells) != len(names):
                problem_of_row = (
                    f"expected {len(names)} fields, as in the header, "
                    f"found {len(cell_row.cells)}"
                )
            row = InputRow(
                cell_row.start,
                dict(zip(names, cell_row.cells, strict=False)),
                problem_of_row,
                cell_row.unreadable,
            )
            yield record_of_row(row, columns, text)

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the names in the header."""
        head = source.head or source.first_line
        lines = head.decode("utf-8-sig", "replace").splitlines(keepends=True)
        header = next(_read_cells(lines, settings, self.usual_delimiter), None)
        if header is None:
            return []
        return _numbers_of_columns(header.cells) if settings.no_header else header.cells


def _choose_columns(names: list[str], text: TextInput) -> Columns:
    """Return the columns that are read. An error sees that a header may be missing."""
    columns = named_columns(text.settings, text.column_option)
    table = text.source.name
    try:
        return choose_columns(columns, names, table=table, has_lists=False)
    except InputError:
        error = missing_header_error(
            names, table=table, text_option=columns.text_option
        )
        if error is None or text.settings.no_header:
            raise
        raise InputError(error) from None


def _numbers_of_columns(cells: Sequence[str]) -> list[str]:
    """Return the names of columns without a header: their numbers, from 1."""
    return [str(number) for number in range(1, len(cells) + 1)]


class Csv(Delimited):
    """Table whose cells are usually separated by commas."""

    name = "csv"
    suffixes = (".csv",)
    usual_delimiter = ","


class Tsv(Delimited):
    """Table whose cells are usually separated by tabs."""

    name = "tsv"
    suffixes = (".tsv", ".tab")
    usual_delimiter = "\t"


class _CellRow(NamedTuple):
    """Row of cells that are not all empty."""

    start: int
    """Number of its first line."""
    cells: list[str]
    problem: Message | None
    unreadable: str | None
    """Error of the first line that is not UTF-8."""


class _Dialect(NamedTuple):
    """How the cells of a table are separated, by its header and the options."""

    delimiter: str
    quoting: Literal[0, 3]
    """`csv.QUOTE_MINIMAL` or `csv.QUOTE_NONE`."""
    cells_have_lines: bool
    """True if a quoted cell may have several lines."""
    quotes_may_be_text: bool
    """True if nothing tells that quotes enclose cells."""
    remedy: str
    """Remedy for wrong quotes."""


def _read_cells(
    lines: Iterable[str], settings: TextSettings, usual_delimiter: str, first: int = 1
) -> Iterator[_CellRow]:
    """Yield the rows of a table, the header first."""
    # Errors of the lines of the current row.
    unreadable: list[str] = []

    def note_unreadable(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if isinstance(line, InvalidLine):
                unreadable.append(line.error)
            yield line

    noted = note_unreadable(lines)
    start, header, delimiter = _find_header(noted, settings, usual_delimiter, first)
    if header is None:
        return
    dialect = _find_dialect(header, delimiter, settings)
    csv.field_size_limit(max(csv.field_size_limit(), MAX_TEXT_BYTES))
    for line in chain([header], noted):
        rest = noted if dialect.cells_have_lines else ()
        reader = csv.reader(
            chain([line], rest),
            delimiter=dialect.delimiter,
            quoting=dialect.quoting,
            strict=True,
        )
        cells: list[str] = []
        problem = None
        try:
            cells = next(reader)
        except csv.Error as error:
            problem = _explain(error, dialect)
        if dialect.quotes_may_be_text:
            match = _SPACED_QUOTES.search(line)
            if match is not None:
                problem = Message(
                    "the cell {cell} is in quotes",
                    remedy=dialect.remedy,
                    cell=match[1][:60],
                )
        if problem is not None or any(cells) or len(cells) == 1:
            yield _CellRow(start, cells, problem, unreadable[0] if unreadable else None)
        unreadable.clear()
        start += reader.line_num


def _find_header(
    lines: Iterable[str], settings: TextSettings, usual_delimiter: str, first: int
) -> tuple[int, str | None, str]:
    """Return the number of the first line of a table, the line, and the delimiter.

    The line is None if all lines are blank.
    """
    delimiter = settings.delimiter
    for number, line in enumerate(lines, start=first):
        match = _SEP_LINE.fullmatch(line)
        if match is not None:
            delimiter = delimiter or match[1]
        elif line.strip():
            if delimiter is None:
                delimiter = _choose_delimiter(line, settings, usual_delimiter)
            return number, line, delimiter
    return 0, None, usual_delimiter


def _find_dialect(header: str, delimiter: str, settings: TextSettings) -> _Dialect:
    # A quoted cell of TSV has several lines only if an option says so.
    cells_have_lines = delimiter != "\t" or settings.quotes is not None
    remedy = "If quotes are text, use {--quotes none}."
    if not cells_have_lines:
        remedy = (
            "If quotes are text, use {--quotes none}, and if they enclose cells or "
            "lines, {--quotes csv}."
        )
    return _Dialect(
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if settings.quotes == "none" else csv.QUOTE_MINIMAL,
        cells_have_lines=cells_have_lines,
        quotes_may_be_text=not cells_have_lines and '"' not in header,
        remedy=remedy,
    )


def _explain(error: csv.Error, dialect: _Dialect) -> Message:
    """Return the problem of a row that the module csv cannot read."""
    reason = str(error).replace("unexpected end of data", "a quoted cell has no end")
    return Message(
        "not valid {kind}: {reason}",
        remedy=dialect.remedy,
        kind="TSV" if dialect.delimiter == "\t" else "CSV",
        reason=reason,
    )


def _choose_delimiter(header: str, settings: TextSettings, usual: str) -> str:
    """Return the delimiter that gives the column of the text, or else most columns."""
    texts = named_columns(settings).texts

    def fit(delimiter: str) -> tuple[bool, int]:
        names = next(csv.reader([header], delimiter=delimiter))
        return any(name in names for name in texts), len(names)

    # The first one of equal ones is used.
    return max((usual, *_DELIMITERS), key=fit)
