"""Scores of the sentences of a file, printed row by row: for `perplexity` and `surprisal`."""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from elmo_cli.cli import messages

if TYPE_CHECKING:
    from elmo_cli.text.lines import Sentence
    from elmo_cli.text.tokenizers import Tokenizer

Row = dict[str, Any]


class _Score(Protocol):
    @property
    def tokens(self) -> "Sentence": ...


_AnyScore = TypeVar("_AnyScore", bound=_Score)


def check_file(text: str) -> None:
    """Check that a file can be read, and is not the text itself."""
    from elmo_cli.text.lines import check_input

    if len(text.split()) > 1 and not os.path.exists(text):
        command = click.get_current_context().info_name
        raise click.UsageError(
            f"FILE is a file of text, and there is no {shlex.quote(text)}; "
            f"`echo {shlex.quote(text)} | elmo {command} -` measures the text itself"
        )
    check_input(text)


def score_file(
    text: str,
    tokenizer: "Tokenizer",
    score: Callable[..., Iterator[_AnyScore]],
    *,
    as_stream: bool = True,
) -> Iterator[_AnyScore]:
    """Score the sentences of a file, with a progress bar.

    Args:
        text: the file, a sentence a line; `-` is standard input.
        tokenizer: of its lines.
        score: takes the sentences, and as `is_ready` whether the next one is there.
        as_stream: do not wait for more sentences before some are scored.
    """
    from elmo_cli.cli.progress import ProgressBar
    from elmo_cli.text.lines import size_in_bytes
    from elmo_cli.text.records import TEXT, open_records

    with (
        ProgressBar(size_in_bytes(text), quiet=messages.is_quiet(), as_lines=False) as bar,
        open_records(text, TEXT, bar.add_bytes, tokenizer=tokenizer) as (records, is_ready, _),
    ):
        sentences = (record.tokens for record in records)
        for found in score(sentences, is_ready=is_ready if as_stream else lambda: True):
            yield found
            bar.add_tokens(len(found.tokens))


def print_header(columns: Iterable[str], as_json: bool) -> None:
    """Print the names of the columns, which JSON has in each row."""
    if not as_json:
        click.echo("\t".join(columns))


def print_rows(rows: Iterable[Row], as_json: bool) -> None:
    """Print the rows of a sentence: TSV, empty where there is no value, or an object a line."""
    lines = [
        json.dumps(row, ensure_ascii=False) if as_json else "\t".join(map(_cell, row.values()))
        for row in rows
    ]
    if lines:
        click.echo("\n".join(lines))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return str(int(value)) if isinstance(value, bool) else "" if value is None else str(value)
