"""Texts whose sentences a language model scores."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from elmo_cli.cli import progress_bar, shared_options
from elmo_cli.cli.command import Decorator, option_group
from elmo_cli.cli.option_conditions import find_option
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import option_named
from elmo_cli.records.formats import looks_like_path
from elmo_cli.records.ids import IdRules
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.text.sources import Source

if TYPE_CHECKING:
    from elmo_cli.language_model.language_model import LanguageModel

_OPTIONS_OF_FILES: Final = (
    "--input-format",
    "--paragraphs",
    "--text-column",
    "--id-column",
    "--word-column",
    "--keep-columns",
    "--delimiter",
    "--quotes",
    "--no-header",
)
"""Options that have no effect on a typed text."""


def is_typed_text(given: str) -> bool:
    """Return whether INPUT is the text itself, and not a file or standard input.

    It is a text if it has a space and does not look like the path of a file.
    """
    return " " in given and not os.path.exists(given) and not looks_like_path(given)


def source_of(given: str) -> Source:
    """Return the source of INPUT: a file, standard input, or the text that it is."""
    if is_typed_text(given):
        return Source(StringIO(given))
    return Source(given)


def check_options_of_typed_text(*others: str) -> None:
    """Raise an error for an option that has no effect on a typed text.

    `others` are further options of this kind.
    """
    ctx = click.get_current_context()
    for name in (*_OPTIONS_OF_FILES, *others):
        if find_option(ctx, name).is_set(ctx):
            raise SettingsError(
                "{option}: requires a file, or - as INPUT",
                remedy="Remove {option}.",
                option=option_named(name),
            )


class OpenText(NamedTuple):
    """Open text, whose records are scored."""

    records: Records
    columns: Sequence[str]
    """Names of the columns that identify a record."""
    show_rate: Callable[[int], None]
    """Show the number of tokens so far, and their rate, in the progress bar."""


@contextmanager
def open_scored_text(
    text_input: TextInput,
    model: "LanguageModel",
    *,
    reads_ids: bool = True,
    may_have_regions: bool = False,
    splits_regions: bool = False,
    may_lack_rows: bool = True,
) -> Iterator[OpenText]:
    """Open the records of a text that a language model scores, with a progress bar.

    Args:
        text_input: The text.
        model: Model that scores it.
        reads_ids: Read the ids of the records. If not, they have none.
        may_have_regions: Warn of `|` that may separate regions.
        splits_regions: Warn of texts without `|`, because it separates regions.
        may_lack_rows: Accept a table that has a header and no rows.
    """
    from elmo_cli.language_model.scored_records import name_columns
    from elmo_cli.records.warnings.expected import expected_input

    expected = expected_input(model.files.name, model.engine.architecture.token_limit)
    expected = expected._replace(
        may_have_regions=may_have_regions,
        splits_regions=splits_regions,
        may_lack_rows=may_lack_rows,
    )
    with (
        progress_bar.progress_bar(
            source=text_input.source.path, is_shown=text_input.source.path is not None
        ) as bar,
        open_records(
            text_input,
            expected,
            reads_ids=reads_ids,
            id_rules=IdRules(number_if_repeated=True),
            on_bytes=bar.update,
        ) as records,
    ):
        yield OpenText(
            records=records,
            columns=name_columns(records, is_split=text_input.splits_lines),
            show_rate=partial(progress_bar.show_rate, bar),
        )


def score_options() -> Decorator:
    """Add the options of a text and of a language model."""

    def add(function: Any) -> Any:
        batch_size = shared_options.batch_size_option(
            requires=[("--state", "carry")], hidden=True
        )
        speed = option_group("Speed", shared_options.batch_tokens_option(), batch_size)
        model = shared_options.language_model_options()
        text = shared_options.text_options()
        return text(model(speed(function)))

    return add
