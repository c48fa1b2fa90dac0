"""Options under headings in the help of a command."""

import click
from click.testing import CliRunner

from elmo_cli.cli.options import GroupedCommand, option_group


def two_options(command):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    return click.option("--first")(click.option("--second")(command))


@click.command(cls=GroupedCommand)
@click.argument("text")
@option_group("Input", click.option("--format"), click.option("--old", hidden=True))
@click.option("-q", "--quiet", is_flag=True)
@option_group("Model", two_options, click.option("--third"))
def command(**options: str) -> None:
    """Do something."""
    click.echo(sorted(options))


def test_options_are_under_their_heading_and_others_last() -> None:
    found = CliRunner().invoke(command, ["--help"]).output.split("\n\n")
    shown = [[line.split()[0].strip(",") for line in block.splitlines()] for block in found[2:]]
    assert shown == [
        ["Input:", "--format"],
        ["Model:", "--first", "--second", "--third"],
        ["Other", "-q", "--help"],
    ]


def test_all_options_reach_the_command() -> None:
    found = CliRunner().invoke(command, ["a", "--old", "b", "--third", "c"])
    assert found.output == "['first', 'format', 'old', 'quiet', 'second', 'text', 'third']\n"
