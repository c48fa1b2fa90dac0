"""Files of word counts, from which log frequencies are read."""

import csv
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted, listed
from elmo_cli.files.file_types import binary_error
from elmo_cli.language_model.frequencies import log_frequencies_of
from elmo_cli.text.sources import Source

_DELIMITERS: Final = "\t;, "
_SAMPLE_LINES: Final = 200
"""Number of lines that decide the form of a file."""
_WORD_NAMES: Final = ("word", "spelling", "form", "ortho", "lemma")
_COUNT_NAMES: Final = (
    "freqcount",
    "wordfreq",
    "count",
    "freq",
    "frequency",
    "freqfilms2",
    "counts|n|occurrences|tokens|hits|frequencies",
    "(freq|count|frecuencia|haufigkeit)(?!lem).*",
    ".*(per(mill?ion|mio|mln)|fpm|ipm|subtlwf).*",
    ".*(freq|frequency|freqcount)|(raw|abs|total|token|word)counts?",
    "(freq|count)lem.*",
)
"""Names of columns of counts in published lists, the best first. They and `_WORD_NAMES`
are in lower case, without marks."""
_NO_COUNT_NAME: Final = re.compile(".*(log|lg10|zipf|rank|band|class).*|l[gn]freq.*")
"""Names of columns that are made from counts, and cannot be used as counts."""
_WORD: Final = re.compile(r"\D*[^\W\d_]\D*")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WITH_COMMAS: Final = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


class FrequencyList(NamedTuple):
    """Log frequencies of a file of counts, and how it was read."""

    log_frequencies: dict[str, float]
    """Log frequency of each word, in bits. Words with the count 0 have none."""
    word_column: str
    """Name of the column of words, or its number from 1 without a header."""
    count_column: str
    """Name of the column of counts, or its number from 1 without a header."""
    added_words: list[str]
    """Words in several rows with different counts, which were added."""

    def warning(self, path: str | Path) -> str | None:
        """Return a warning about words whose counts were added, if there are any."""
        n_added = len(self.added_words)
        if not n_added:
            return None
        has = "has" if n_added == 1 else "have"
        return (
            f"{counted(n_added, 'word')}, such as {self.added_words[0]!r}, {has} "
            f"several rows with different counts in {path}. They were added."
        )


def read_frequencies(path: str | Path) -> FrequencyList:
    """Read the log frequencies of words from a file of counts.

    Two of the columns, separated by tabs, semicolons, commas or spaces, are a word and
    its count. In a table with a header, the name of the column says that it has counts,
    as in SUBTLEX. In a list without one, it is the first column of numbers other than
    ranks. A count can be any number, such as one per million words, also `1,100` and
    `3,5`. If a word is in several rows, equal counts are one count, and different
    counts are added.

    Raises:
        InputError: The file has no column of counts, or a row without a count.
    """
    remedy = "Give the name of a file with a word and its count per line."
    counts_of_word: dict[str, list[float]] = {}
    with Source(path, remedy) as source:
        error = binary_error(source.name, source.head, advice=remedy)
        if error is not None:
            raise error
        lines, _ = source.lines()
        numbered = ((line.number, line.text) for line in lines if line.text)
        sample = list(islice(numbered, _SAMPLE_LINES))
        if not source.has_lines:
            raise source.empty_error()
        form = _find_form(path, [line for _, line in sample])
        for word, count in _read_counts(path, chain(sample, numbered), form):
            counts = counts_of_word.setdefault(word, [])
            if count not in counts:
                counts.append(count)
    sums = {word: sum(counts) for word, counts in counts_of_word.items()}
    return FrequencyList(
        log_frequencies=log_frequencies_of(sums, str(path)),
        word_column=form.word_name,
        count_column=form.count_name,
        added_words=[
            word for word, counts in counts_of_word.items() if len(counts) > 1
        ],
    )


def _read_counts(
    path: str | Path, lines: Iterable[tuple[int, str]], form: "_CountFileForm"
) -> Iterator[tuple[str, float]]:
    """Yield the word and the count of each numbered line."""
    for number, line in lines:
        cells = dict(enumerate(_split(line, form.delimiter)))
        word = cells.get(form.word_column, "")
        count = _parse_number(
            cells.get(form.count_column, ""), thousands=form.thousands
        )
        if count is not None and word:  # `uniq -c` counts blank lines.
            yield word, count
        elif count is None and number > 1:  # The first line may be a header.
            raise InputError(
                f"{path}, line {number}: expected a word and its count, "
                f"found {line[:60]!r}",
                remedy="Correct the line, or remove it.",
            )


class _CountFileForm(NamedTuple):
    """Form of a file of counts."""

    delimiter: str
    word_column: int
    count_column: int
    thousands: str
    """Mark between thousands."""
    header: Sequence[str] = ()
    """Cells of the header; empty without one."""

    @property
    def word_name(self) -> str:
        """Name of the column of words, or its number from 1."""
        return self._name(self.word_column)

    @property
    def count_name(self) -> str:
        """Name of the column of counts, or its number from 1."""
        return self._name(self.count_column)

    def _name(self, column: int) -> str:
        return self.header[column] if self.header else str(column + 1)


class _CountColumn(NamedTuple):
    """Column of numbers; the least one is the best for counts."""

    rank: int
    """Rank of its name, 0 is best."""
    is_numbering: bool
    """True if it only numbers the lines, or is constant."""


def _find_form(path: str | Path, lines: Sequence[str]) -> _CountFileForm:
    """Find the columns of words and of counts by the first lines of a file."""
    names_without_counts: list[str] = []
    for delimiter in _DELIMITERS:
        rows = [_split(line, delimiter) for line in lines]
        word_columns, count_columns = _find_columns(rows)
        if not word_columns or not count_columns:
            continue
        header = []
        if any(_is_name(rows[0], column) for column in count_columns):
            header = rows[0]
            count_columns = {
                index: column
                for index, column in count_columns.items()
                if column.rank < len(_COUNT_NAMES)
            }
        if not count_columns:
            names_without_counts = names_without_counts or header
            continue
        count_column = min(count_columns, key=count_columns.__getitem__)
        return _CountFileForm(
            delimiter=delimiter,
            word_column=min(word_columns, key=word_columns.__getitem__),
            count_column=count_column,
            thousands=_thousands(
                row[count_column] for row in rows if count_column < len(row)
            ),
            header=header,
        )
    if names_without_counts:
        raise InputError(
            "{path}: no column of counts, found {columns}",
            remedy="Rename the column with the counts to count.",
            path=path,
            columns=listed([name for name in names_without_counts if name], "and"),
        )
    text = "".join(lines)
    delimiter = next((each for each in _DELIMITERS if each in text), "\t")
    return _CountFileForm(delimiter, word_column=0, count_column=1, thousands=",")


def _find_columns(
    rows: list[list[str]],
) -> tuple[dict[int, int], dict[int, _CountColumn]]:
    """Find the columns of words, with the rank of each name, and those of numbers."""
    word_columns: dict[int, int] = {}
    count_columns: dict[int, _CountColumn] = {}
    for index, cells in enumerate(zip_longest(*rows, fillvalue="")):
        name = _plain_name(cells[0])
        numbers = _numbers_in_column(cells)
        n_words = sum(1 for cell in cells if _WORD.fullmatch(cell))
        if 2 * len(numbers) >= len(cells):
            steps = {after - before for before, after in pairwise(numbers)}
            count_columns[index] = _CountColumn(
                rank=_count_rank(name), is_numbering=steps in ({0}, {1})
            )
        elif 2 * n_words >= len(cells):
            word_columns[index] = _rank(name, _WORD_NAMES)
    return word_columns, count_columns


def _plain_name(cell: str) -> str:
    """Return a name in lower case, without accents and marks."""
    letters = unicodedata.normalize("NFKD", cell.lower())
    return re.sub(r"[\W_]", "", letters)


def _is_name(header: Sequence[str], column: int) -> bool:
    """Return whether a cell of the first row names a column of numbers."""
    cell = header[column] if column < len(header) else ""
    return (
        _LETTER.search(cell) is not None and _parse_number(cell, thousands=",") is None
    )


def _count_rank(name: str) -> int:
    """Return the rank of the name of a column of counts, 0 is best."""
    if not _NO_COUNT_NAME.fullmatch(name):
        for rank, pattern in enumerate(_COUNT_NAMES):
            if re.fullmatch(pattern, name):
                return rank
    return len(_COUNT_NAMES)


def _rank(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    cells = next(csv.reader([line], delimiter=delimiter))
    if len(cells) < 2:  # A quote in the line is a word.
        cells = line.split(delimiter)
    return [cell.strip() for cell in cells]


def _thousands(cells: Iterable[str]) -> str:
    """Return the mark between thousands.

    It is a comma, unless the comma is the decimal mark of a number.
    """
    for cell in cells:
        if not cell[:1].isdigit():
            continue
        has_decimals = "," in cell and not _WITH_COMMAS.fullmatch(cell)
        if has_decimals or cell.count(".") > 1:
            return "."
    return ","


def _numbers_in_column(cells: Iterable[str]) -> list[float]:
    """Return the numbers among the cells of a column."""
    cells = list(cells)
    thousands = _thousands(cells)
    numbers = [_parse_number(cell, thousands) for cell in cells]
    return [number for number in numbers if number is not None]


def _parse_number(cell: str, thousands: str) -> float | None:
    digits = "".join(cell.split()).replace(thousands, "").replace(",", ".")
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None
