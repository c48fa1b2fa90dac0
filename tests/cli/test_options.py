"""Options under headings in the help of a command, and with conditions."""

import click
import pytest
from click.testing import CliRunner

from elmo_cli.cli import COMMANDS, find_command
from elmo_cli.cli.command import Command, Option, option_group
from elmo_cli.cli.options import option


@click.command(cls=Command)
@click.argument("text")
@option_group("Input", option("--format"), option("--old", hidden=True))
@click.option("-q", "--quiet", is_flag=True)
@option_group("Model", lambda each: option("--first")(option("--second")(each)), option("--third"))
def command(**options: str) -> None:
    """Do something."""
    click.echo(sorted(options))


def test_options_are_under_their_heading_and_others_last() -> None:
    blocks = CliRunner().invoke(command, ["--help"]).output.split("\n\n")
    shown = [[line.split()[0].strip(",") for line in block.splitlines()] for block in blocks[2:]]
    assert shown == [
        ["Input:", "--format"],
        ["Model:", "--first", "--second", "--third"],
        ["Other", "-q", "--help"],
    ]


def test_all_options_reach_the_command() -> None:
    result = CliRunner().invoke(command, ["a", "--old", "b", "--third", "c"])
    assert result.output == "['first', 'format', 'old', 'quiet', 'second', 'text', 'third']\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_conditions_name_options_of_the_command(name: str) -> None:
    command = find_command(name)
    names = {name for parameter in command.params for name in parameter.opts}
    for each in command.params:
        if isinstance(each, Option):
            texts = [text for text in (each.requires, each.excludes) if text]
            assert {part.split()[0] for text in texts for part in text.split(" or ")} <= names
