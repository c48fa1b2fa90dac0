"""Queries on standard input, in lists of those that can be read without waiting.

Rows on standard output, and the records of a text that commands score.

Queries of `elmo neighbours` in a table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from elmo_cli.cli import messages
from elmo_cli.errors import InputError, counted
from elmo_cli.outputs.printed import RowWriter
from elmo_cli.settings import TextSettings
from elmo_cli.text.records import Record
from elmo_cli.text.sources import STANDARD_INPUT, open_lines
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence
    from elmo_cli.language_model.scoring import LanguageModel, ScoredRecord
    from elmo_cli.text.input_formats import IdUse, TextInput


_Result = TypeVar("_Result")
_MAX_EXAMPLES = 3


@contextmanager
def print_rows(
    row_format: str | None, columns: Sequence[str], *, as_json: bool = False
) -> Iterator[RowWriter]:
    """Open a writer of rows to standard output, by the options --format and --json; TSV by default.

    At the end, warn about texts that pandas or R would read as missing.
    """
    row_format = "json" if as_json else row_format or "tsv"
    rows = RowWriter(partial(click.echo, nl=False), row_format, columns)
    yield rows
    rows.finish()
    _warn_about_missing(rows.like_missing)


def _warn_about_missing(texts: Counter[str]) -> None:
    if not texts:
        return
    examples = " and ".join(repr(text) for text, _ in texts.most_common(_MAX_EXAMPLES))
    messages.say(
        f"Warning: pandas or R reads {counted(texts.total(), 'text')} such as {examples} as "
        'missing. Use read_csv(..., keep_default_na=False, na_values=[""]) in pandas, '
        'na.strings="" in R, or --format json.'
    )


class ScoredText(NamedTuple):
    """Records of an open text, for a language model."""

    columns: Sequence[str]
    """Names of the columns that name a record."""
    records: "Iterator[Record]"
    is_ready: Callable[[], bool]
    """Function that returns whether the next record can be read without a long wait."""
    show_rate: Callable[[int], None]
    """Function that shows the rate after a number of tokens."""

    def counted(
        self, scored_records: "Iterable[ScoredRecord[_Result]]"
    ) -> "Iterator[ScoredRecord[_Result]]":
        """Yield scored records, and show the number of their tokens per second."""
        n_tokens = 0
        for scored_record in scored_records:
            yield scored_record
            n_tokens += len(scored_record.record.tokens)
            self.show_rate(n_tokens)


@contextmanager
def open_scored_text(
    text: "TextInput", model: "LanguageModel", *, ignores_ids: bool = False
) -> Iterator[ScoredText]:
    """Open the records of a text whose sentences a language model scores, with a progress bar."""
    from elmo_cli.cli.progress import progress_bar, show_rate
    from elmo_cli.language_model.scoring import name_columns
    from elmo_cli.pretrained.registry import expected_input
    from elmo_cli.text.input_formats import open_records

    expected = expected_input(model.files.name, model.engine.options.token_limit)
    ids: IdUse = "none" if ignores_ids else "unique"
    with (
        progress_bar(source=text.source.path) as bar,
        open_records(text, expected, ids=ids, on_bytes=bar.update) as (records, is_ready, has_ids),
    ):
        columns = name_columns(has_ids=has_ids, is_split=text.tokenizer.splits_by is not None)
        yield ScoredText(columns, records, is_ready, partial(show_rate, bar))


_Item = TypeVar("_Item")
_Query = TypeVar("_Query")

MAX_CHUNK = 64
"""Maximum number of queries that are answered together."""


def read_queries(parse: Callable[[str], _Query]) -> Iterator[list[_Query]]:
    """Yield the parsed lines of standard input, in lists of lines that are ready together.

    Raises:
        InputError: A line cannot be parsed. The lines before it are yielded first.
    """
    with open_lines(STANDARD_INPUT) as (lines, is_ready):
        yield from in_chunks(lines, parse, is_ready, "standard input, line")


def in_chunks(
    items: Iterable[_Item],
    parse: Callable[[_Item], _Query],
    is_ready: Callable[[], bool],
    name: str,
) -> Iterator[list[_Query]]:
    """Yield parsed items in lists of items that can be read without waiting.

    Args:
        items: Items of an input, such as lines.
        parse: Function that parses an item.
        is_ready: Function that returns whether the next item can be read without waiting.
        name: Words before the number of an item in messages.

    Raises:
        InputError: An item cannot be parsed. The items before it have been yielded.
    """
    chunk: list[_Query] = []
    try:
        for number, item in enumerate(items, start=1):
            try:
                chunk.append(parse(item))
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


_WORD: Final = "word"


def read_query_table(
    path: str, settings: TextSettings, tokenizer: Tokenizer, *, pooled: bool
) -> "Iterator[list[Occurrence]]":
    """Yield the queries of a table, in lists of rows that are ready together.

    A row has a sentence, and in the column `word` the word to search for. Where tokens are
    pooled, the sentence itself is the query.

    Raises:
        InputError: The file is no table, or a row is no query.
    """
    from elmo_cli.analysis.cosine import Occurrence, find_occurrence
    from elmo_cli.text.input_formats import open_input, open_records

    settings = replace(settings, keep_columns=() if pooled else (_WORD,))
    text = open_input(path, settings, tokenizer)
    if not text.format.has_columns:
        raise InputError(
            f"{text.source.name}: expected a table, found {text.format.name}. Name its format with "
            "--input-format, or pipe lines of a word, a tab and a sentence into "
            "`elmo neighbours -`."
        )

    def parse(record: Record) -> "Occurrence":
        if not record.tokens:
            raise InputError("expected a sentence, found an empty text")
        if pooled:
            return Occurrence(record.tokens, 0)
        return find_occurrence(record.tokens, str(record.columns[_WORD] or ""))

    with open_records(text, ids="none") as (records, is_ready, _):
        yield from in_chunks(records, parse, is_ready, f"{text.source.name}, {text.format.unit}")
