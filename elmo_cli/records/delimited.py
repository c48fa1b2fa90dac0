"""CSV and TSV: tables of lines, whose header names the columns.

The header also shows the delimiter, unless an option or a line `sep=;` names it.
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message, literal
from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import Columns, choose_columns, named_columns
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.input_rows import InputRow, record_of_row
from elmo_cli.records.missing_header import missing_header_error
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line
from elmo_cli.text.sources import Source

_DELIMITERS: Final = (",", ";", "\t", "|")
_NAMES_OF_DELIMITERS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
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

    def parse(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[Record]:
        """Yield the records of the rows, given as lines with their ends."""
        rows = _read_rows(iter(lines), text_input.settings, self.usual_delimiter)
        header = next(rows, None)
        if header is None:
            return
        if header.unreadable is not None:
            raise InputError(text_input.error(header.unreadable))
        if header.problem is not None:
            problem = Message("the header is {problem}", problem=header.problem)
            raise InputError(text_input.error(problem))
        names = header.cells
        if text_input.settings.no_header:
            names = _numbers_of_columns(header.cells)
            rows = chain([header], rows)
        columns = _choose_columns(names, text_input)
        for cell_row in rows:
            problem_of_row = cell_row.problem
            if problem_of_row is None and len(cell_row.cells) != len(names):
                problem_of_row = _other_number_error(
                    cell_row, n_expected=len(names), settings=text_input.settings
                )
            row = InputRow(
                start=cell_row.start,
                fields=dict(zip(names, cell_row.cells, strict=False)),
                problem=problem_of_row,
                unreadable=cell_row.unreadable,
            )
            yield record_of_row(row, columns, text_input)

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the names in the header."""
        head = source.head or source.first_line
        texts = head.decode("utf-8-sig", "replace").splitlines(keepends=True)
        lines = (Line(number, text) for number, text in enumerate(texts, start=1))
        header = next(_read_rows(lines, settings, self.usual_delimiter), None)
        if header is None:
            return []
        return _numbers_of_columns(header.cells) if settings.no_header else header.cells


def _other_number_error(
    row: "_CellRow", *, n_expected: int, settings: TextSettings
) -> Message:
    """Return the error of a row that has more or fewer cells than the header."""
    if len(row.cells) < n_expected:
        remedy = "Add the missing cells."
    elif settings.quotes == "none":
        remedy = "Remove the other cells."
    else:
        name = _NAMES_OF_DELIMITERS.get(row.delimiter, f"`{literal(row.delimiter)}`")
        remedy = f"Put quotes around a cell that contains {name}."
    return Message(
        f"expected {n_expected} fields, as in the header, found {len(row.cells)}",
        remedy=remedy,
    )


def _choose_columns(names: list[str], text_input: TextInput) -> Columns:
    """Return the columns that are read. An error sees that a header may be missing."""
    columns = named_columns(text_input.settings, text_input.text_option)
    table = text_input.source.name
    try:
        return choose_columns(columns, names, table=table, has_lists=False)
    except InputError:
        error = missing_header_error(
            names, table=table, text_option=columns.text_option
        )
        if error is None or text_input.settings.no_header:
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
    """Row of cells."""

    start: int
    """Number of its first line."""
    cells: list[str]
    delimiter: str
    problem: Message | None
    """What is wrong with its quotes."""
    unreadable: str | None
    """Error of the first line that is not UTF-8."""

    @property
    def is_blank(self) -> bool:
        """True for a blank line, and for a row whose several cells are all empty."""
        if self.problem is not None or len(self.cells) == 1:
            return False
        return not any(self.cells)


class _Header(NamedTuple):
    """First row of a table."""

    line: Line
    """Its first line."""
    delimiter: str


class _Dialect(NamedTuple):
    """How the cells of a table are separated, by its header and the options."""

    delimiter: str
    has_quotes: bool
    """True if quotes may enclose a cell."""
    cells_have_lines: bool
    """True if a quoted cell may have several lines."""
    quotes_may_be_text: bool
    """True if nothing tells that quotes enclose cells."""
    remedy: str
    """Remedy for wrong quotes."""


def _read_rows(
    lines: Iterator[Line], settings: TextSettings, usual_delimiter: str
) -> Iterator[_CellRow]:
    """Yield the rows of a table that are not blank, the header first."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_TEXT_BYTES))
    header = _find_header(lines, settings, usual_delimiter)
    if header is None:
        return
    dialect = _find_dialect(header, settings)
    # A row whose quoted cell has several lines takes the further ones from `following`,
    # so that the loop continues after them.
    following = _Lines(lines)
    for line in chain([header.line], following):
        row = _read_row(line, following, dialect)
        if not row.is_blank:
            yield row


class _Lines(Iterator[Line]):
    """Lines of a table, some of which can be read again."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._again: deque[Line] = deque()

    def __next__(self) -> Line:
        return self._again.popleft() if self._again else next(self._lines)

    def read_again(self, lines: Iterable[Line]) -> None:
        """Return these lines next. They are those that were read last."""
        self._again = deque([*lines, *self._again])


def _read_row(line: Line, following: _Lines, dialect: _Dialect) -> _CellRow:
    """Return the row that begins with a line; take its further lines from the next.

    A row with wrong quotes ends with its first line.
    """
    lines = [line]

    def texts_of_row() -> Iterator[str]:
        """Yield lines, as many as the csv reader takes until all quotes are closed."""
        yield line.text
        if dialect.cells_have_lines:
            for each in following:
                lines.append(each)
                yield each.text

    reader = csv.reader(
        texts_of_row(),
        delimiter=dialect.delimiter,
        quoting=csv.QUOTE_MINIMAL if dialect.has_quotes else csv.QUOTE_NONE,
        strict=True,
    )
    cells: list[str] = []
    problem = None
    try:
        cells = next(reader)
    except csv.Error as error:
        problem = _unreadable_row_error(error, dialect)
        # A quote that nothing closes would take all lines to the end of the file.
        following.read_again(lines[1:])
        lines = [line]
    if dialect.quotes_may_be_text:
        match = _SPACED_QUOTES.search(line.text)
        if match is not None:
            problem = Message(
                f"the cell {match[1][:60]} is in quotes",
                remedy=dialect.remedy,
            )
    errors = [each.error for each in lines if each.error is not None]
    return _CellRow(
        start=line.number,
        cells=cells,
        delimiter=dialect.delimiter,
        problem=problem,
        unreadable=errors[0] if errors else None,
    )


def _find_header(
    lines: Iterator[Line], settings: TextSettings, usual_delimiter: str
) -> _Header | None:
    """Return the header of a table and its delimiter; None if all lines are blank."""
    delimiter = settings.delimiter
    for line in lines:
        match = _SEP_LINE.fullmatch(line.text)
        if match is not None and line.error is None:
            delimiter = delimiter or match[1]
        elif line.text.strip():
            if delimiter is None:
                delimiter = _choose_delimiter(
                    line.text, settings=settings, usual=usual_delimiter
                )
            return _Header(line, delimiter)
    return None


def _find_dialect(header: _Header, settings: TextSettings) -> _Dialect:
    # A quoted cell of TSV has several lines only if an option says so.
    cells_have_lines = header.delimiter != "\t" or settings.quotes is not None
    remedy = "If quotes are text, use {--quotes none}."
    if not cells_have_lines:
        remedy = (
            "If quotes are text, use {--quotes none}, and if they enclose cells or "
            "lines, {--quotes csv}."
        )
    return _Dialect(
        delimiter=header.delimiter,
        has_quotes=settings.quotes != "none",
        cells_have_lines=cells_have_lines,
        quotes_may_be_text=not cells_have_lines and '"' not in header.line.text,
        remedy=remedy,
    )


def _unreadable_row_error(error: csv.Error, dialect: _Dialect) -> Message:
    """Return the error of a row that the module csv cannot read."""
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
