"""Options under headings in the help of a command, and with conditions."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from elmo_cli.cli import COMMANDS, find_command
from elmo_cli.cli.command import Command, Option, option_group
from elmo_cli.cli.options import count, flag, option


def two_options(command: Any) -> Any:
    return option("--first")(option("--second")(command))


@click.command(cls=Command)
@click.argument("text")
@option_group("Input", option("--format"), option("--old", hidden=True))
@click.option("-q", "--quiet", is_flag=True)
@option_group("Model", two_options, option("--third"))
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


@click.command(cls=Command)
@option("--how")
@flag("--loud")
@count("--times", default=1, requires="--how often or --loud")
@flag("--never", excludes="--never or --loud or --how often")
def speak(**_options: str) -> None:
    """Do something."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--times 1", "--times requires --how often or --loud"),
        ("--how rarely --times 2", "--times requires --how often or --loud"),
        ("--never --loud", "choose one of --never and --loud"),
        ("--how often --never", "choose one of --never and --how often"),
    ],
)
def test_required_and_excluded_options_are_checked(arguments: str, message: str) -> None:
    result = CliRunner().invoke(speak, arguments.split())
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {message}")


@pytest.mark.parametrize(
    "arguments", ["", "--never --how rarely", "--how often --times 2", "--loud --times 2"]
)
def test_options_that_go_together_run(arguments: str) -> None:
    assert CliRunner().invoke(speak, arguments.split()).exit_code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_conditions_name_options_of_the_command(name: str) -> None:
    command = find_command(name)
    names = {name for parameter in command.params for name in parameter.opts}
    for parameter in command.params:
        if isinstance(parameter, Option):
            texts = [text for text in (parameter.requires, parameter.excludes) if text]
            conditions = [part.split() for text in texts for part in text.split(" or ")]
            assert {part[0] for part in conditions} <= names
