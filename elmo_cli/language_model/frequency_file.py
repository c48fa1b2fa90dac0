"""Files of word counts."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import normalize

_DELIMITERS: Final = "\t;, "


_SAMPLE_LINES: Final = 200  # number of lines that decide the form of a file


_WORD_NAMES: Final = ("word", "spelling", "form", "ortho", "lemma")


# Names of columns in the headers of published lists, without marks, the best first.
_COUNT_NAMES: Final = (
    "freqcount",
    "wordfreq",
    "count",
    "freq",
    "frequency",
    "freqfilms2",
)


_WORD: Final = re.compile(r"\D*[^\W\d_]\D*")


_WITH_COMMAS: Final = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def read_frequencies(path: str | Path) -> dict[str, float]:
    """Read the log frequencies of words from a file of counts.

    Two of the columns, separated by tabs, semicolons, commas or spaces, are a word and its count.
    The header names them, as in SUBTLEX, or else they are the first column of words and the first
    of numbers other than ranks. A count can be any number, such as one per million words, also
    `1,100` and `3,5`. A word with the count 0 has no log frequency.
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
    with Source(
        path, "Give the name of a file with a word and its count per line."
    ) as source:
        lines, _ = source.lines()
        numbered = (
            (number, line) for number, line in enumerate(lines, start=1) if line.strip()
        )
        sample = list(islice(numbered, _SAMPLE_LINES))
        delimiter, *columns, thousands = _find_columns([line for _, line in sample])
        for number, line in chain(sample, numbered):
            cells = dict(enumerate(_split(line, delimiter)))
            word, cell = (cells.get(column, "") for column in columns)
            value = _number(cell, thousands)
            if value is not None and word:  # `uniq -c` counts blank lines.
                yield normalize(word).strip(), value
            elif value is None and number > 1:  # The first line may be a header.
                raise InputError(
                    f"{path}, line {number}: expected a word and its count, found {line[:60]!r}"
                )


def _find_columns(lines: Sequence[str]) -> tuple[str, int, int, str]:
    """Find the delimiter, the columns of words and counts, and the mark between thousands."""
    for delimiter in _DELIMITERS:
        rows = [_split(line, delimiter) for line in lines]
        words: dict[int, int] = {}  # How good the name of a column is, 0 is best.
        counts: dict[int, tuple[int, bool]] = {}
        for index, cells in enumerate(zip_longest(*rows, fillvalue="")):
            name, mark = re.sub(r"\W", "", cells[0].lower()), _thousands(cells)
            values = [
                value for cell in cells if (value := _number(cell, mark)) is not None
            ]
            if 2 * len(values) >= len(cells):
                steps = {after - before for before, after in pairwise(values)}
                counts[index] = (*_COUNT_NAMES, name).index(name), steps in ({0}, {1})
            elif 2 * sum(bool(_WORD.fullmatch(cell)) for cell in cells) >= len(cells):
                words[index] = (*_WORD_NAMES, name).index(name)
        if words and counts:
            count = min(counts, key=counts.__getitem__)
            numbers = [row[count] for row in rows if count < len(row)]
            return (
                delimiter,
                min(words, key=words.__getitem__),
                count,
                _thousands(numbers),
            )
    return (
        next((each for each in _DELIMITERS if each in "".join(lines)), "\t"),
        0,
        1,
        ",",
    )


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    cells = next(csv.reader([line], delimiter=delimiter))
    # One cell has a quote that is a word.
    return list(map(str.strip, cells if len(cells) > 1 else line.split(delimiter)))


def _thousands(cells: Iterable[str]) -> str:
    """Return the mark between thousands: a comma, unless it is the decimal mark of a number."""
    numbers = [cell for cell in cells if cell[:1].isdigit()]
    has_decimals = any(
        "," in cell and not _WITH_COMMAS.fullmatch(cell) for cell in numbers
    )
    return "." if has_decimals or any(cell.count(".") > 1 for cell in numbers) else ","


def _number(cell: str, thousands: str) -> float | None:
    digits = "".join(cell.split()).replace(thousands, "").replace(",", ".")
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None
