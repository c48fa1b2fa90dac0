"""Log frequencies of words: by the counts in a file, or estimated from a vocabulary.

A log frequency is log2 of the share of the word among all words. Minus it is the surprisal of the
word without a context, in bits.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.text.lines import open_lines

_DELIMITERS: Final = "\t,; "


def estimate_frequencies(vocabulary: Vocabulary) -> dict[str, float]:
    """Estimate the log frequency of each word of a vocabulary from its rank.

    The words of a vocabulary are in the order of their counts. A share that is log-uniform in the
    rank r, from 0, is `log((r + 2) / (r + 1)) / log(V + 1)`: Zipf's law, from which the sampled
    softmax of the training draws too.
    """
    total = math.log(len(vocabulary) + 1)
    return {
        word: math.log2(math.log1p(1 / (rank + 1)) / total)
        for rank, word in enumerate(vocabulary.words)
        if word not in SPECIAL_TOKENS
    }


def read_frequencies(path: str | Path) -> dict[str, float]:
    """Read the log frequencies of words from a file of counts.

    Each line has a word and its count, separated by a tab, a comma, a semicolon or a space; the
    first line may be a header. A count can be any number, such as one per million words. A word
    with the count 0 has no log frequency.

    Raises:
        InputError: The file cannot be read, or has no counts.
    """
    counts: dict[str, float] = {}
    for word, number in _read_counts(path):
        counts[word] = counts.get(word, 0.0) + number
    total = sum(counts.values())
    if not total:
        raise InputError(f"{path}: expected words with counts, found none")
    return {word: math.log2(number / total) for word, number in counts.items() if number}


def _read_counts(path: str | Path) -> Iterator[tuple[str, float]]:
    delimiter = None
    with open_lines(path) as (lines, _):
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            delimiter = delimiter or next((each for each in _DELIMITERS if each in line), "\t")
            cells = next(csv.reader([line], delimiter=delimiter))
            if len(cells) == 1:  # A quote that is a word.
                cells = line.split(delimiter)
            try:
                word, value = cells[0], float(cells[1])
                if not (value >= 0 and math.isfinite(value)):
                    raise ValueError
            except (IndexError, ValueError):
                if number == 1:  # The first line may be a header.
                    continue
                raise InputError(
                    f"{path}, line {number}: expected a word and its count, found {line[:60]!r}"
                ) from None
            yield word, value


def sum_frequencies(words: list[str], frequencies: Mapping[str, float]) -> float | None:
    """Return the sum of the log frequencies of words; None if one of them has none.

    A word that is missing has the log frequency of its lower case.
    """
    values = [frequencies.get(word, frequencies.get(word.lower())) for word in words]
    present = [value for value in values if value is not None]
    return sum(present) if len(present) == len(values) else None
