"""Options under headings in the help of a command, and with conditions."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from commands import assert_misused, elmo

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


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("embed IN OUT --options-file x", "--options-file requires --weight-file"),
        ("embed IN OUT --weight-file x", "--weight-file requires --options-file"),
        (
            "embed IN OUT --model m --options-file x --weight-file y",
            "choose one of --model and --options-file",
        ),
        ("embed IN OUT --all --top", "choose one of --all and --top"),
        ("embed IN OUT --layers all --average", "choose one of --average and --layers"),
        ("embed IN OUT --top --average", "choose one of --top and --average"),
        ("embed IN OUT --mix 1,2,3 --layers 1", "choose one of --mix and --layers"),
        ("embed IN OUT --mix 1,2,3 --top", "choose one of --top and --mix"),
        ("embed IN OUT --gamma 1.2", "--gamma requires --mix"),
        ("cosine --pairs a --word2 b", "choose one of --pairs and --word2"),
        ("perplexity IN --batch-size 64", "--batch-size requires --state carry"),
        ("perplexity IN -f csv", "--format requires --per-sentence or --format jsonl"),
        ("embed IN OUT -o OUT", "choose one of OUTPUT and --output"),
        ("embed IN", "Missing argument 'OUTPUT'."),
        ("predict a --temperature 0.7", "--temperature requires --sample"),
        ("predict a --max-words 50", "--max-words requires --sample"),
        ("predict a --seed 0", "--seed requires --sample"),
        ("predict a --sample 2 --top 10", "choose one of --top and --sample"),
        ("distribute IN OUT --workers 2 --engine none", "--workers requires --engine ray"),
        ("distribute IN OUT --shard 1/2", "--shard requires --engine none"),
        ("distribute IN OUT --cuda 0", "--device requires --engine none"),
        ("word-vectors IN OUT --softmax-file x", "--softmax-file requires --softmax"),
        ("word-vectors IN OUT --softmax --cuda 0", "choose one of --device and --softmax"),
        ("train IN --preset mini --init-from m", "choose one of --preset and --init-from"),
        ("train IN --epochs 1 --steps 1", "choose one of --epochs and --steps"),
        ("train IN --batch-size 128", "--batch-size requires --state carry"),
        (
            "train IN --state zero --unroll 20",
            "--unroll requires --state carry or --optimizer adagrad",
        ),
        (
            "train IN --state carry --batch-tokens 9",
            "choose one of --batch-tokens and --state carry",
        ),
        ("train IN --state carry --max-length 9", "choose one of --max-length and --state carry"),
        (
            "train IN --optimizer adagrad --weight-decay 0.1",
            "choose one of --weight-decay and --optimizer adagrad",
        ),
        (
            "train IN --vocabulary-file IN --vocabulary-size 9",
            "choose one of --vocabulary-size and --vocabulary-file",
        ),
        (
            "train IN --validation-file IN --validation-share 0.1",
            "choose one of --validation-share and --validation-file",
        ),
    ],
)
def test_wrong_combinations_of_options_are_misused(
    command: str, message: str, folder: Path
) -> None:
    Path("IN").touch()
    name, *rest = command.split()
    assert_misused(elmo(name, *(["--output", "OUT"] if name == "train" else []), *rest), message)
    assert not Path("OUT").exists()
