"""Files of word counts, from which log frequencies are read."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import normalize

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
)
"""Names of columns in the headers of published lists, the best first. They and
`_WORD_NAMES` are in lower case, without marks."""
_WORD: Final = re.compile(r"\D*[^\W\d_]\D*")
_WITH_COMMAS: Final = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def read_frequencies(path: str | Path) -> dict[str, float]:
    """Read the log frequencies of words from a file of counts.

    Two of the columns, separated by tabs, semicolons, commas or spaces, are a word and
    its count. The header names them, as in SUBTLEX, or else they are the first column
    of words and the first of numbers other than ranks. A count can be any number, such
    as one per million words, also `1,100` and `3,5`. A word with the count 0 has no log
    frequency.
    """
    counts: dict[str, float] = {}
    for word, number in _read_counts(path):
        counts[word] = counts.get(word, 0.0) + number
    total = sum(counts.values())
    if not total:
        raise InputError(f"{path}: no words with counts")
    return {
        word: math.log2(number / total) for word, number in counts.items() if number
    }


def _read_counts(path: str | Path) -> Iterator[tuple[str, float]]:
    remedy = "Give the name of a file with a word and its count per line."
    with Source(path, remedy) as source:
        lines, _ = source.lines()
        numbered = (
            (number, line) for number, line in enumerate(lines, start=1) if line.strip()
        )
        sample = list(islice(numbered, _SAMPLE_LINES))
        form = _find_form([line for _, line in sample])
        for number, line in chain(sample, numbered):
            cells = dict(enumerate(_split(line, form.delimiter)))
            word = cells.get(form.word_column, "")
            count = _parse_number(cells.get(form.count_column, ""), form.thousands)
            if count is not None and word:  # `uniq -c` counts blank lines.
                yield normalize(word).strip(), count
            elif count is None and number > 1:  # The first line may be a header.
                raise InputError(
                    f"{path}, line {number}: expected a word and its count, "
                    f"found {line[:60]!r}"
                )


class _CountFileForm(NamedTuple):
    """Form of a file of counts."""

    delimiter: str
    word_column: int
    count_column: int
    thousands: str
    """Mark between thousands."""


class _CountColumn(NamedTuple):
    """Column of numbers; the least one is the best for counts."""

    rank: int
    """Rank of its name, 0 is best."""
    is_numbering: bool
    """True if it only numbers the lines, or is constant."""


def _find_form(lines: Sequence[str]) -> _CountFileForm:
    for delimiter in _DELIMITERS:
        rows = [_split(line, delimiter) for line in lines]
        form = _form_of_rows(rows, delimiter)
        if form is not None:
            return form
    text = "".join(lines)
    delimiter = next((each for each in _DELIMITERS if each in text), "\t")
    return _CountFileForm(delimiter, word_column=0, count_column=1, thousands=",")


def _form_of_rows(rows: list[list[str]], delimiter: str) -> _CountFileForm | None:
    """Find the columns of words and of counts; None if one is missing."""
    word_columns: dict[int, int] = {}  # rank of the name of each column
    count_columns: dict[int, _CountColumn] = {}
    for index, cells in enumerate(zip_longest(*rows, fillvalue="")):
        name = re.sub(r"\W", "", cells[0].lower())
        numbers = _numbers(cells)
        n_words = sum(1 for cell in cells if _WORD.fullmatch(cell))
        if 2 * len(numbers) >= len(cells):
            steps = {after - before for before, after in pairwise(numbers)}
            count_columns[index] = _CountColumn(
                rank=_rank(name, _COUNT_NAMES), is_numbering=steps in ({0}, {1})
            )
        elif 2 * n_words >= len(cells):
            word_columns[index] = _rank(name, _WORD_NAMES)
    if not word_columns or not count_columns:
        return None
    count_column = min(count_columns, key=count_columns.__getitem__)
    cells_of_counts = [row[count_column] for row in rows if count_column < len(row)]
    return _CountFileForm(
        delimiter=delimiter,
        word_column=min(word_columns, key=word_columns.__getitem__),
        count_column=count_column,
        thousands=_thousands(cells_of_counts),
    )


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


def _numbers(cells: Iterable[str]) -> list[float]:
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
