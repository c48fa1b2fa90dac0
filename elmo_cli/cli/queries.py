"""Queries of `elmo neighbours` and `elmo cosine`, in lists that are ready together.

A query is a line of standard input or a row of a table. The first ones are answered
before the last ones are typed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from elmo_cli.cli.chunks import parse_in_chunks
from elmo_cli.errors.checks import check_sentence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import listed
from elmo_cli.options.column_names import parse_column_names
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.records.annotated_places import half_place_error
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.input_rows import texts_of_tokens
from elmo_cli.records.record import Record
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer
from elmo_cli.types import Sentence

if TYPE_CHECKING:
    from elmo_cli.text.occurrences import Occurrence, OccurrencePair

    PairRow = tuple[Mapping[str, object], OccurrencePair | InputError]
    """Columns of a row, and its two occurrences, or why they were not found."""

_Query = TypeVar("_Query")


def peek_first_line(source: Source) -> str:
    """Return the first line of a source, which is not read yet for `read_queries`."""
    with source.peeking():
        lines, _ = source.lines()
        for line in lines:
            return line.text
        return ""


def read_queries(
    source: Source, parse: Callable[[str], _Query]
) -> Iterator[list[_Query]]:
    """Yield the parsed lines of standard input, in lists that are ready together.

    `parse` gets a line with the white space around it, because a cell may be empty.
    Raise an `InputError` if there are none.
    """
    with source:
        lines, is_ready = source.lines(keep_ends=True)
        texts = (line.text for line in lines)
        yield from parse_in_chunks(
            texts, parse, is_ready=is_ready, name_of=_name_of_line
        )
    if not source.has_lines:
        raise source.empty_error()


def query_settings(settings: TextSettings, *, pooled: bool) -> TextSettings:
    """Return the options by which the table of `read_query_table` is opened."""
    return replace(settings, keep_columns=() if pooled else ALL_COLUMNS)


def read_query_table(
    text_input: TextInput, *, pooled: bool
) -> "Iterator[list[Occurrence | InputError]]":
    """Yield the queries of a table, in lists of rows that are ready together.

    A row has a sentence, in the column `word` the word to search for, and optionally in
    the column `occurrence` its number in the sentence. Where tokens are pooled, the
    sentence is the query. A row without such a word has the error in its place.
    """
    from elmo_cli.text.occurrences import Occurrence, occurrence_of

    def parse(record: Record) -> Occurrence | InputError:
        if not pooled:
            _check_has(record.columns, "word", "Besides the text, the columns are")
        try:
            return find(record)
        except InputError as error:
            return error

    def find(record: Record) -> Occurrence:
        if not record.tokens:
            raise InputError("expected a sentence, found an empty text")
        if pooled:
            return Occurrence(record.tokens, 0)
        word = str(record.columns["word"] or "")
        number = _number_in_column(record.columns, "occurrence", least=1)
        return occurrence_of(
            word,
            record.tokens,
            number=number,
            choice_of=partial(_column_with_number, "occurrence"),
        )

    found = _names_in_header(text_input)
    if found and not pooled and "word" not in found:
        text = text_input.settings.text_column or "text"
        raise InputError(
            f"{text_input.source.name}: expected the columns word and {text}, found "
            f"{listed(found, 'and')}",
            remedy="Rename the column with the words to word.",
        )
    yield from _parsed_rows(text_input, parse)


class PairColumns(NamedTuple):
    """Columns with the two sentences of a pair."""

    first: str
    second: str

    @classmethod
    def of(cls, text_column: str | None) -> "PairColumns":
        """Return the columns that --text-column names, separated by a comma."""
        names = parse_column_names(text_column or "sentence1,sentence2")
        if len(names) != 2:
            raise SettingsError(
                "{--text-column}: expected two columns, such as "
                "sentence1,sentence2, found {names}",
                names=",".join(names),
            )
        return cls(*names)

    def settings(self, settings: TextSettings) -> TextSettings:
        """Return the options by which the table of `read_pair_table` is opened."""
        return replace(settings, text_column=self.first, keep_columns=ALL_COLUMNS)

    def check_found(self, found: Sequence[str]) -> None:
        """Raise an `InputError` if a table has not all columns of a pair."""
        has_words = any(name in found for name in ("word", "word1", "start1"))
        if has_words and self.first in found and self.second in found:
            return
        raise InputError(
            f"expected the columns word, {self.first} and {self.second}, found "
            f"{listed(found, 'and')}",
            remedy="Rename the columns, or name those of the sentences with "
            "{--text-column NAME1,NAME2}.",
        )


def read_pair_table(
    text_input: TextInput, names: PairColumns
) -> "Iterator[list[PairRow]]":
    """Yield the columns and the two occurrences of each row of a table, in lists.

    `names` are the columns of the two sentences. The columns `word1` and `word2`, or
    `word`, have the words, `occurrence1` and `occurrence2` their numbers in them; or
    `start1`, `end1` and so on have their characters. A row without such words has the
    error in place of its occurrences.
    """
    text_input = replace(text_input, text_option="--text-column NAME1,NAME2")
    found = _names_in_header(text_input)

    def parse(record: Record) -> "PairRow":
        columns = {names.first: record.text, **record.columns}
        names.check_found([*columns])
        # The columns of a record lack its text, which gets its place back here.
        in_order = [name for name in found if name in columns]
        columns = {name: columns[name] for name in [*in_order, *columns]}
        first = _Side(1, record.text, record.tokens, names.first)
        second = _second_side(columns[names.second], text_input.tokenizer, names.second)
        if isinstance(columns[names.second], list):
            columns[names.second] = second.text
        try:
            pair = (
                _occurrence_in_row(first, columns),
                _occurrence_in_row(second, columns),
            )
        except InputError as error:
            return columns, error
        return columns, pair

    if found:
        try:
            names.check_found(found)
        except InputError as error:
            raise InputError(text_input.error(error)) from None
    yield from _parsed_rows(text_input, parse)


def _names_in_header(text_input: TextInput) -> list[str]:
    """Return the columns of a table; none if it shows none."""
    if not text_input.format.has_columns:
        return []
    return text_input.format.column_names(text_input.source, text_input.settings)


class _Side(NamedTuple):
    """First or second sentence of a row."""

    number: int
    text: str
    tokens: Sentence
    column: str


def _second_side(value: object, tokenizer: Tokenizer, name: str) -> _Side:
    """Return the second sentence of a row, from a text or a list of tokens."""
    if isinstance(value, list):
        tokens = check_sentence(texts_of_tokens(value), name)
        return _Side(2, " ".join(tokens), tokens, name)
    text = str(value or "")
    return _Side(2, text, tokenizer.tokenize(text), name)


def _occurrence_in_row(side: _Side, columns: Mapping[str, object]) -> "Occurrence":
    """Return the occurrence in one sentence of a row."""
    from elmo_cli.text.alignment import CharacterSpan
    from elmo_cli.text.occurrences import occurrence_at, occurrence_of

    if not side.tokens:
        raise InputError(f"field {side.column!r}: expected a sentence, found none")
    word_column = f"word{side.number}"
    if word_column not in columns:
        word_column = "word"
    word = str(columns.get(word_column) or "")
    number = _number_in_column(columns, f"occurrence{side.number}", least=1)
    start = _number_in_column(columns, f"start{side.number}", least=0)
    end = _number_in_column(columns, f"end{side.number}", least=0)
    if start is not None and end is not None:
        return occurrence_at(CharacterSpan(start, end), side.text, side.tokens)
    if start is not None:
        raise half_place_error(f"start{side.number}", f"end{side.number}")
    if end is not None:
        raise half_place_error(f"end{side.number}", f"start{side.number}")
    if not word:
        raise InputError(f"field {word_column!r}: expected a word, found none")
    column = partial(_column_with_number, f"occurrence{side.number}")
    return occurrence_of(word, side.tokens, number=number, choice_of=column)


def _column_with_number(name: str, n_occurrences: int) -> str:
    return f"a column `{name}` with a number from 1 to {n_occurrences}"


def _parsed_rows(
    text_input: TextInput, parse: Callable[[Record], _Query]
) -> Iterator[list[_Query]]:
    from elmo_cli.records.open_records import open_records
    from elmo_cli.records.warnings.expected import UNKNOWN

    if not text_input.format.has_columns:
        text_input.source.check()
        raise SettingsError(
            f"{text_input.source.name}: expected a table, found "
            f"{text_input.format.name}",
            remedy="If it is a table, use {--input-format csv}, or "
            "{--input-format tsv} if its cells are separated by tabs.",
        )
    # A row has an occurrence in one sentence, so the command cannot split it.
    expected = UNKNOWN._replace(may_split_sentences=False)
    with open_records(text_input, expected, reads_ids=False) as read:
        yield from parse_in_chunks(
            read.records,
            parse,
            is_ready=read.is_ready,
            name_of=partial(name_of_record, text_input),
        )


def name_of_record(text_input: TextInput, number: int, record: Record) -> str:
    """Return the beginning of a record's error: `pairs.csv, line 3`."""
    unit = text_input.format.number_unit
    return f"{text_input.source.name}, {unit} {record.start or number}"


def _name_of_line(number: int, line: str) -> str:
    return f"standard input, line {number}"


def _check_has(
    columns: Mapping[str, object], name: str, listing: str = "The columns are"
) -> None:
    """Raise an `InputError` if the columns of a row lack one with this name.

    `listing` begins the list of the columns.
    """
    if name not in columns:
        listed = f" {listing} {', '.join(map(repr, columns))}." if columns else ""
        raise InputError(f"no column {name!r}.{listed}")


def _number_in_column(
    columns: Mapping[str, object], name: str, *, least: int
) -> int | None:
    """Return a number in a column; None without the column, or if the cell is empty."""
    value = columns.get(name)
    is_missing = isinstance(value, float) and math.isnan(value)
    if value in (None, "") or is_missing:
        return None
    with suppress(ValueError):
        number = float(str(value))  # pandas writes 2.0 if there are empty cells.
        if number.is_integer() and number >= least:
            return int(number)
    raise InputError(
        f"{name}: expected a number from {least}, found {str(value)[:60]!r}"
    )
