"""Texts whose sentences a language model scores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import option_group
from elmo_cli.records.ids import IdUse
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.records.text_input import TextInput

if TYPE_CHECKING:
    from elmo_cli.language_model.language_model import LanguageModel


class OpenText(NamedTuple):
    """Open text, whose records are scored."""

    read: Records
    columns: Sequence[str]
    """Names of the columns that name a record."""
    show_rate: Callable[[int], None]
    """Show the number of tokens so far, and their rate, in the progress bar."""


@contextmanager
def open_text(
    text: TextInput, model: "LanguageModel", ids: IdUse = "rows"
) -> Iterator[OpenText]:
    """Open the records of a text that a language model scores, with a progress bar."""
    from elmo_cli.language_model.scored_records import name_columns
    from elmo_cli.pretrained.registry import expected_input

    expected = expected_input(model.files.name, model.engine.options.token_limit)
    with (
        messages.progress_bar(source=text.source.path) as bar,
        open_records(text, expected, ids=ids, on_bytes=bar.update) as read,
    ):
        yield OpenText(
            read=read,
            columns=name_columns(read, is_split=text.splits_lines),
            show_rate=partial(messages.show_rate, bar),
        )


def score_options(function: Any) -> Any:
    """Add the options of a text and of a language model."""
    batch_size = options.batch_size_option(requires="--state carry")
    speed = option_group("Speed", options.batch_tokens_option, batch_size)
    function = options.language_model_options(speed(function))
    return options.text_options(options.BY_INPUT)(function)
