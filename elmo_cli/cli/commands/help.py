"""`elmo help`."""

from pathlib import Path

import click

from elmo_cli.cli.command import command
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
    "tokenizer",
)
"""Topics of the page of formats, without an `s` at their end."""


def _complete_topics(ctx: click.Context, _parameter: object, start: str) -> list[str]:
    names = [*getattr(ctx.find_root().command, "commands", ()), "formats"]
    return [name for name in names if name.startswith(start)]


@command("help")
@click.argument(
    "topic",
    metavar="[COMMAND|formats]",
    required=False,
    shell_complete=_complete_topics,
)
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:
    """Show the help of a command, or of the formats that all commands share.

    \b
    $ elmo help embed
    $ elmo help formats
    """
    parent = ctx.find_root()
    assert isinstance(parent.command, click.Group)
    if topic is None:
        click.echo(parent.get_help())
        return
    if topic.lower().removesuffix("s") in _OF_FORMATS:
        page = Path(__file__).with_name("formats.txt")
        click.echo(page.read_text(encoding="utf-8"), nl=False)
        return
    found = parent.command.get_command(parent, topic)
    if found is None:
        topics = [*parent.command.commands, "formats"]
        raise click.UsageError(
            f"{topic}: no such topic.{did_you_mean(topic, topics)} "
            f"Choose one of {', '.join(topics)}.",
            parent,
        )
    context = found.make_context(topic, [], parent, resilient_parsing=True)
    click.echo(context.get_help())
