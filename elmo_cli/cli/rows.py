"""Rows on standard output, and the records of a text that commands score."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from elmo_cli.cli import messages
from elmo_cli.errors import counted
from elmo_cli.outputs.rows import RowWriter
from elmo_cli.settings import TextSettings

if TYPE_CHECKING:
    from elmo_cli.language_model.scored_records import ScoredRecord
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.text.records import Record
    from elmo_cli.text.tokenizers import Tokenizer

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
    text: str,
    settings: TextSettings,
    tokenizer: "Tokenizer",
    model: "LanguageModel",
    *,
    ignores_ids: bool = False,
) -> Iterator[ScoredText]:
    """Open a text whose sentences a language model scores, with a progress bar."""
    from elmo_cli.cli.runs import progress_bar, show_rate
    from elmo_cli.language_model.scored_records import name_columns
    from elmo_cli.pretrained.domains import warn_about_domain

    limit = model.engine.options.token_limit
    options = settings.read_options(limit, ignores_ids=ignores_ids)
    with (
        progress_bar(source=text) as bar,
        settings.open_records(text, tokenizer, options, bar.update) as (records, is_ready, has_ids),
    ):
        columns = name_columns(has_ids=has_ids, is_split=tokenizer.splits_by is not None)
        checked = warn_about_domain(records, model.files.name)
        yield ScoredText(columns, checked, is_ready, partial(show_rate, bar))
