"""Queries of `elmo neighbours` in a table."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from elmo_cli.cli.answers import in_chunks
from elmo_cli.errors import InputError
from elmo_cli.settings import TextSettings
from elmo_cli.text.lines import name_of
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence

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

    input_format = settings.find_format(path, tokenizer)
    if not input_format.has_columns:
        raise InputError(
            f"{name_of(path)}: expected a table, found {input_format.name}. Name its format with "
            "--input-format, or pipe lines of a word, a tab and a sentence into "
            "`elmo neighbours -`."
        )

    def parse(record: Record) -> "Occurrence":
        if not record.tokens:
            raise InputError("expected a sentence, found an empty text")
        if pooled:
            return Occurrence(record.tokens, 0)
        return find_occurrence(record.tokens, str(record.columns[_WORD] or ""))

    settings = replace(settings, keep_columns=() if pooled else (_WORD,))
    options = settings.read_options(ignores_ids=True)
    with settings.open_records(path, tokenizer, options) as (records, is_ready, _):
        yield from in_chunks(records, parse, is_ready, f"{name_of(path)}, {input_format.unit}")
