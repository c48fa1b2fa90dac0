"""Scores of the sentences of a file, for `perplexity` and `surprisal`."""

import os
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from elmo_cli.text.lines import Sentence
    from elmo_cli.text.tokenizers import Tokenizer


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
    from elmo_cli.text.records import find_format, open_records

    input_format = find_format(text, tokenizer=tokenizer)
    with (
        ProgressBar(total=size_in_bytes(text)) as bar,
        open_records(text, input_format, bar.add, tokenizer=tokenizer) as (records, is_ready, _),
    ):
        sentences = (record.tokens for record in records)
        for found in score(sentences, is_ready=is_ready if as_stream else lambda: True):
            yield found
            bar.add_tokens(len(found.tokens))
