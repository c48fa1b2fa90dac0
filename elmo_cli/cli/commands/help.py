"""`elmo help`."""

from pathlib import Path
from typing import Final

import click

from elmo_cli.cli.command import command
from elmo_cli.cli.wrong_names import meant_command
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.options.output import OUTPUT_FORMATS
from elmo_cli.options.text import INPUT_FORMATS
from elmo_cli.options.tokenizer_names import TOKENIZERS

_OF_FORMATS = (
    *INPUT_FORMATS,
    *OUTPUT_FORMATS,
    *TOKENIZERS,
    "column",
    "format",
    "token",
    "tokenizer",
)
"""Topics of the page of formats, without an `s` at their end."""
_PAGES: Final = ("formats", "layers", "numbers")
"""Topics with a page, which is a file next to this one."""


def _complete_topics(ctx: click.Context, _parameter: object, start: str) -> list[str]:
    names = [*getattr(ctx.find_root().command, "commands", ()), *_PAGES]
    return [name for name in names if name.startswith(start)]


def _page_of(topic: str) -> str | None:
    """Return the page of a topic, which may lack its `s`."""
    name = topic.lower().removesuffix("s")
    if name in _OF_FORMATS:
        return "formats"
    return f"{name}s" if f"{name}s" in _PAGES else None


@command("help")
@click.argument(
    "topic",
    metavar="[COMMAND|TOPIC]",
    required=False,
    shell_complete=_complete_topics,
)
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:
    """Show the help of a command, or of a topic: formats, layers or numbers.

    \b
    $ elmo help embed
    $ elmo help layers

    Without an argument, `elmo help` lists the commands. The topics are:

    \b
    formats   formats of inputs and outputs, columns, tokenizers
    layers    what each layer is good for, values of --layers and --mix
    numbers   which numbers count from 0, and which from 1
    """
    parent = ctx.find_root()
    assert isinstance(parent.command, click.Group)
    if topic is None:
        click.echo(parent.get_help())
        return
    page = _page_of(topic)
    if page is not None:
        path = Path(__file__).with_name(f"{page}.txt")
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    found = parent.command.get_command(parent, topic)
    if found is None:
        topics = [*parent.command.commands, *_PAGES]
        question = meant_command(topic) or did_you_mean(topic, topics)
        message = Message(
            f"{topic or repr(topic)}: no such command or topic",
            remedy=question or f"Choose one of {', '.join(topics)}.",
        )
        raise click.UsageError(message.as_options(), parent)
    context = found.make_context(topic, [], parent, resilient_parsing=True)
    click.echo(context.get_help())
