"""Queries of commands, read in lists that are ready together, and answers, printed as rows or JSON.

Rows are CSV, TSV or JSON lines. A cell with a quote, a tab, a comma or a line end is quoted, so
that pandas (`read_csv`) and R (`read.csv`, `read.delim`) find every row. A missing value is an
empty cell, and an empty text is `""`. Quoting does not help for `NA`, `null` and `None`, which
pandas reads as missing: `RowWriter.like_missing` counts them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import click

from elmo_cli.cli import messages
from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import counted
from elmo_cli.files.json_form import json_text
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.records.columns import renamed_columns
from elmo_cli.records.record import Record
from elmo_cli.text.sources import STANDARD_INPUT, Source
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.analysis.occurrences import Occurrence, Pair

    PairRow = tuple[Mapping[str, object], Pair | InputError]

_Row = TypeVar("_Row")
_Query = TypeVar("_Query")

ROW_FORMATS: Final = ("tsv", "csv", "jsonl")
MAX_CHUNK: Final = 64  # queries that are answered together
LIKE_MISSING: Final = frozenset(
    [
        *(
            "#N/A",
            "#N/A N/A",
            "#NA",
            "-1.#IND",
            "-1.#QNAN",
            "-NaN",
            "-nan",
            "1.#IND",
            "1.#QNAN",
        ),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    ]
)
"""Texts that pandas reads as missing, quoted or not. R reads only `NA` as missing."""
_QUOTED: Final = re.compile(r"""[",\t\r\n]|^$|^\s|\s$""")
_NO_COLUMNS: Final[Mapping[str, object]] = MappingProxyType({})


@contextmanager
def print_rows(
    row_format: str | None,
    columns: Sequence[str],
    input_columns: Mapping[str, object] = _NO_COLUMNS,
) -> Iterator["RowWriter"]:
    """Open a writer of rows to standard output, by the option --format; TSV by default.

    The header has `input_columns` if there are no rows. At the end, warn about texts that pandas or
    R would read as missing.
    """
    rows = RowWriter(partial(click.echo, nl=False), row_format or "tsv", columns)
    yield rows
    if rows.input_names is None:  # There were no rows.
        rows.write([], input_columns)
    if texts := rows.like_missing:
        examples = " and ".join(repr(text) for text, _ in texts.most_common(3))
        messages.say(
            f"Warning: pandas or R reads {counted(texts.total(), 'text')} such as {examples} as "
            'missing. Use read_csv(..., keep_default_na=False, na_values=[""]) in pandas, '
            'na.strings="" in R, or --format jsonl.'
        )


class RowWriter:
    """Writer of rows with the same columns."""

    def __init__(
        self, write: Callable[[str], object], row_format: str, columns: Sequence[str]
    ) -> None:
        """Make a writer, which calls `write` with the lines of rows that are written together."""
        self._write, self._columns = write, columns
        self._delimiter = {"tsv": "\t", "csv": ",", "jsonl": None}[row_format]
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

        Each row repeats `names`, which are its first values, and the columns of the input; see
        `renamed_columns`. CSV and TSV cannot hold a column that the first rows do not have.
        """
        full_rows = ([*names, *row] for row in rows)
        if self._delimiter is None:
            values = (dict(zip(self._columns, row, strict=True)) for row in full_rows)
            lines = [
                json_text(with_columns(each, input_columns)) + "\n" for each in values
            ]
        else:
            lines = list(self._table_lines(full_rows, input_columns, self._delimiter))
        if lines:
            self._write("".join(lines))

    def _table_lines(
        self,
        rows: Iterable[Sequence[object]],
        input_columns: Mapping[str, object],
        delimiter: str,
    ) -> Iterator[str]:
        if self.input_names is None:
            self.input_names = list(input_columns)
            names = [
                *self._columns,
                *renamed_columns(input_columns, self._columns).values(),
            ]
            yield delimiter.join(map(_quoted, names)) + "\n"
        if other := input_columns.keys() - set(self.input_names):
            remedy = "Use --format jsonl, or name the columns with --keep-columns."
            raise InputError(
                f"column {min(other)!r}: the first record does not have it. {remedy}"
            )
        last = [_exact(input_columns.get(name)) for name in self.input_names]
        for row in rows:
            if texts := [
                each for each in row if isinstance(each, str) and each in LIKE_MISSING
            ]:
                self.like_missing.update(texts)
            yield delimiter.join([*map(cell, row), *last]) + "\n"


def with_columns(
    values: dict[str, object], others: Mapping[str, object]
) -> dict[str, object]:
    """Return computed values with columns of the input behind them; see `renamed_columns`."""
    names = renamed_columns(others, values)
    return values | {names[name]: value for name, value in others.items()}


def cell(value: object) -> str:
    """Return a computed value as a cell. A float has six decimals, or near 0 six digits."""
    if isinstance(value, float):
        return f"{value:.6g}" if 0 < abs(value) < 1e-3 else f"{value:.6f}"
    return _exact(value)


def _exact(value: object) -> str:
    """Return a value as a cell, from which it can be read back."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):  # also a bool
        return str(int(value))
    if isinstance(value, (list, tuple, dict)):
        return _quoted(json_text(value))
    return "" if value is None else _quoted(str(value))


def _quoted(text: str) -> str:
    """Return a text as a cell of CSV and TSV, in quotes if it needs them."""
    if _QUOTED.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def read_queries(parse: Callable[[str], _Query]) -> Iterator[list[_Query]]:
    """Yield the parsed lines of standard input, in lists of lines that are ready together."""
    with Source(STANDARD_INPUT) as source:
        lines, is_ready = source.lines()
        yield from in_chunks(lines, parse, is_ready, "standard input, line")


def in_chunks(
    rows: Iterable[_Row],
    parse: Callable[[_Row], _Query],
    is_ready: Callable[[], bool],
    name: str,
) -> Iterator[list[_Query]]:
    """Yield parsed rows in lists of rows that can be read without waiting.

    The rows before one that cannot be parsed are yielded first. Messages begin with `name` and the
    number of the row.
    """
    chunk: list[_Query] = []
    try:
        for number, row in enumerate(rows, start=1):
            try:
                chunk.append(parse(row))
            except InputError as error:
                raise InputError(f"{name} {number}: {error}") from None
            if len(chunk) == MAX_CHUNK or not is_ready():
                yield chunk
                chunk = []
    except InputError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def read_query_table(
    path: str, settings: TextSettings, tokenizer: Tokenizer, *, pooled: bool
) -> "Iterator[list[Occurrence]]":
    """Yield the queries of a table, in lists of rows that are ready together.

    A row has a sentence, in the column `word` the word to search for, and optionally in the column
    `occurrence` its number in the sentence. Where tokens are pooled, the sentence is the query.
    """
    from elmo_cli.analysis.occurrences import Occurrence, occurrence_of

    def parse(record: Record) -> Occurrence:
        if not record.tokens:
            raise InputError("expected a sentence, found an empty text")
        if pooled:
            return Occurrence(record.tokens, 0)
        word, number = (
            _column(record.columns, "word"),
            _number(record.columns, "occurrence", 1),
        )
        return occurrence_of(
            str(word or ""), record.tokens, number, "a column `occurrence`"
        )

    settings = replace(settings, keep_columns=() if pooled else ALL_COLUMNS)
    yield from _parsed_rows(path, settings, tokenizer, parse)


def read_pair_table(
    path: str, settings: TextSettings, tokenizer: Tokenizer
) -> "Iterator[list[PairRow]]":
    """Yield all columns and the two occurrences of each row of a table, in lists of rows.

    `settings.text_column` names the two sentences, separated by a comma. The columns `word1` and
    `word2`, or `word`, have the words, `occurrence1` and `occurrence2` their numbers in the
    sentences; or `start1`, `end1` and so on have their characters. A row without such words has
    the error in place of its occurrences.
    """
    from elmo_cli.analysis.occurrences import Occurrence, occurrence_of

    names = (settings.text_column or "sentence1,sentence2").split(",")
    if len(names) != 2:
        raise SettingsError(
            f"--text-column {names[0]}: name two, such as sentence1,sentence2."
        )

    def find(columns: Mapping[str, object], side: int, tokens: Sentence) -> Occurrence:
        word = str(columns.get(f"word{side}", columns.get("word")) or "")
        number = _number(columns, f"occurrence{side}", 1)
        start, end = (_number(columns, f"{name}{side}", 0) for name in ("start", "end"))
        if None not in (start, end):
            text = str(columns[names[side - 1]])
            word = " ".join(tokenizer.tokenize(text[start:end]))
            number = tokenizer.tokenize(text[:start]).count(word) + 1
        return occurrence_of(word, tokens, number, f"a column `occurrence{side}`")

    def parse(record: Record) -> "PairRow":
        columns = {names[0]: record.text, **record.columns}
        other = _column(columns, names[1])
        if columns.keys().isdisjoint(("word1", "start1")):
            _column(columns, "word")
        tokens = (
            other if isinstance(other, list) else tokenizer.tokenize(str(other or ""))
        )
        try:
            return columns, (find(columns, 1, record.tokens), find(columns, 2, tokens))
        except InputError as error:
            return columns, error

    settings = replace(settings, text_column=names[0], keep_columns=ALL_COLUMNS)
    option = "--text-column NAME1,NAME2"
    yield from _parsed_rows(path, settings, tokenizer, parse, column_option=option)


def _parsed_rows(
    path: str,
    settings: TextSettings,
    tokenizer: Tokenizer,
    parse: Callable[[Record], _Query],
    *,
    column_option: str = "--text-column",
) -> Iterator[list[_Query]]:
    from elmo_cli.records.open_records import open_records
    from elmo_cli.records.text_input import open_input
    from elmo_cli.records.warnings.expected import UNKNOWN

    text = open_input(path, settings, tokenizer)
    if not text.format.has_columns:
        raise SettingsError(
            f"{text.source.name}: expected a table, found {text.format.name}. Name its format with "
            "--input-format, or pipe lines into the command (see its --help)."
        )
    text = replace(text, column_option=column_option)
    # A row has an occurrence in one sentence, so the command cannot split it.
    expected = UNKNOWN._replace(may_split_sentences=False)
    with open_records(text, expected, reads_ids=False) as read:
        name = f"{text.source.name}, {text.unit}"
        yield from in_chunks(read.records, parse, read.is_ready, name)


def _column(columns: Mapping[str, object], name: str) -> object:
    if name not in columns:
        others = f" The others are {', '.join(map(repr, columns))}." if columns else ""
        raise InputError(f"no column {name!r}.{others}")
    return columns[name]


def _number(columns: Mapping[str, object], name: str, least: int) -> int | None:
    """Return a number in a column; None if the cell is empty, or the column is missing."""
    value = columns.get(name)
    if value in (None, "") or value != value:
        return None
    with suppress(ValueError):
        number = float(str(value))  # pandas writes 2.0 if there are empty cells.
        if number.is_integer() and number >= least:
            return int(number)
    raise InputError(
        f"{name}: expected a number from {least}, found {str(value)[:60]!r}"
    )
