"""Mistakes of users have the same exit status in every command that has the option.

Status 2 is for wrong options, and 1 for what fails in a run.
"""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from elmo_cli.cli.command_list import COMMANDS, find_command
from tests.support.commands import elmo

BASES = {
    "embed": ["text.txt", "out.h5", "--model", "model"],
    "occurrences": ["text.txt", "out.h5", "--words", "words.txt", "--model", "model"],
    "perplexity": ["text.txt", "--model", "model"],
    "surprisal": ["text.txt", "--model", "model"],
    "predict": ["--file", "text.txt", "--model", "model"],
    "cosine": ["cat", "the cat", "a cat", "--model", "model"],
    "neighbours": ["cat", "the cat", "v.h5", "--model", "model"],
    "plot": ["cat", "v.h5", "out.svg", "--method", "pca"],
    "word-vectors": [
        "text.txt",
        "out.npz",
        "--min-count",
        "1",
        "--model",
        "model",
    ],
    "change": ["v.h5", "v.h5", "--words", "words.txt"],
    "train": ["text.txt", "--preset", "mini", "--output", "new", "--steps", "1"],
    "models": [],
    "info": ["model"],
    "download": ["mini"],
    "convert": ["model/weights.hdf5", "out.safetensors"],
    "completion": ["bash"],
    "help": ["embed"],
    "distribute": ["text.txt", "parts", "--engine", "none", "--model", "model"],
}
"""Arguments of each command that make it succeed."""


@pytest.fixture
def linked_inputs(prepared: Path, folder: Path) -> None:
    """Link all inputs into the current folder, for commands that write new files."""
    for path in prepared.iterdir():
        Path(path.name).symlink_to(path)


def test_every_command_has_arguments_that_succeed() -> None:
    assert sorted(BASES) == sorted(COMMANDS)


def arguments_with_mistake(command: str, options: list[str]) -> list[str] | None:
    """Return arguments of a command with options that are a mistake.

    None if the command does not have them, or needs them to succeed.
    """
    base = list(BASES[command])
    names = {option for option in options if option.startswith("--")}
    for name in names & {"--model", "--words"} & set(base):
        # The mistake takes the place of the right value.
        place = base.index(name)
        del base[place : place + 2]
    known = {name for each in find_command(command).params for name in each.opts}
    if not names <= known or names & set(base):
        return None
    return base + options


def assert_fails_everywhere(options: str, status: int, message: str) -> None:
    """Assert that a mistake has one status and message wherever its options are."""
    n_commands = 0
    for command in BASES:
        arguments = arguments_with_mistake(command, options.split())
        if arguments is None:
            continue
        result = elmo(command, *arguments)
        n_commands += 1
        assert result.exit_code == status, f"{command}: {result.stderr}"
        assert re.search(message, result.stderr), f"{command}: {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert n_commands > 0


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--tokenizer mosses", "tokenizer: expected .*, found 'mosses'"),
        ("--tokenizer moses:x1", "language: expected .*, found 'x1'"),
        ("--tokenizer moses --language x1", "language: expected .*, found 'x1'"),
        ("--language fr --tokenizer whitespace", "--language: has no effect"),
        ("--layers last", "layers(: expected .*, found)? 'last'"),
        ("--layers 9", "layers(: expected .*, found)? '9'"),
        ("--mix 1,2", "--mix: expected 3 numbers"),
        ("--mix 1,x,3", "expected numbers separated by commas"),
        ("--mix nan,1,2", "expected finite float32 numbers"),
        (
            "--pooling average",
            "pooling: expected .*, found 'average'. Did you mean 'mean'",
        ),
        ("--precision float64", "precision: expected .*, found 'float64'"),
        ("--state cold", "state: expected .*, found 'cold'"),
        ("--input-format docx", "input-format: expected .*, found 'docx'"),
        ("--format xlsx", "format: expected .*, found 'xlsx'"),
        ("--shard 0/3", "shard: expected .*, found '0/3'"),
        ("--batch-tokens 0", "expected a whole number of at least 1, found"),
        (f"--batch-tokens {2**63}", "expected a number below 2\\^63, found"),
        (
            "--top 0",
            "expected a whole number|^Error: 0: unexpected|--top: takes no value",
        ),
        ("--device tpu", "device: expected .*, found 'tpu'"),
    ],
)
def test_wrong_value_has_status_2(options: str, message: str) -> None:
    assert_fails_everywhere(options, status=2, message=message)


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gamma 2", "--gamma: requires --mix"),
        ("--mix 1,2,3 --layers all", "--mix: cannot be combined with --layers"),
        ("--options-file o.json", "--options-file"),
        (
            "--input-format conllu --split-sentences",
            "requires|no effect with|: expected .*, found 'conllu'",
        ),
        (
            "--input-format fasta --tokenizer moses",
            "no effect|: requires --(queries|pairs)|FASTA has",
        ),
        (
            "--text-column context",
            "--text-column: requires|requires --(queries|pairs)|a table with a",
        ),
        ("--id-column item", "--id-column: requires a table, found text"),
        ("--keep-columns all", "--keep-columns"),
        (
            "--input-format fasta --paragraphs",
            "--paragraphs: requires|no effect with|FASTA has",
        ),
        (
            "--layout packed --format parquet",
            "--layout: requires HDF5, found the output format parquet",
        ),
        (
            "--compression gzip --format parquet",
            "--compression: requires HDF5, found the output format parquet",
        ),
        ("--rows tokens", "--rows tokens: requires Parquet or JSON lines"),
        ("--use-sentence-keys --layout packed", "--use-sentence-keys: requires HDF5"),
        (
            "--format csv --json",
            "--format: cannot be combined|: requires --p|--json: cannot be",
        ),
        ("--plot out.gif", "unknown suffix '.gif'. Choose .svg"),
    ],
)
def test_wrong_combination_has_status_2(options: str, message: str) -> None:
    assert_fails_everywhere(options, status=2, message=message)


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model nothing", "nothing: no such model"),
        ("--device cuda:77", "device cuda:77"),
        ("--cuda-device 77", "device cuda:77"),
        ("--words nothing", "nothing"),
        ("--frequencies nothing", "nothing"),
        ("--occurrence 3", "occurs once"),
        ("--occurrence1 3", "occurs once"),
    ],
)
def test_failure_of_a_run_has_status_1(options: str, message: str) -> None:
    assert_fails_everywhere(options, status=1, message=message)


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize("name", ["none.txt", "utf16.txt", "latin.txt", "items.csv"])
@pytest.mark.parametrize(
    "command",
    [
        "embed",
        "occurrences",
        "perplexity",
        "surprisal",
        "predict",
        "train",
        "distribute",
    ],
)
def test_unreadable_input_has_status_1(command: str, name: str) -> None:
    arguments = [name if each == "text.txt" else each for each in BASES[command]]
    result = elmo(command, *arguments)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_that_is_not_finite_is_refused(command: str, value: Any) -> None:
    for option in find_command(command).params:
        if isinstance(option.type, click.FloatRange):
            with pytest.raises(click.BadParameter, match=f"found '{value}'"):
                option.type.convert(value, option, None)


OUTPUTS = ("out.h5", "out.svg", "out.npz", "out.safetensors", "new", "parts")


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize("command", BASES)
def test_q_prints_nothing_and_v_the_time(command: str) -> None:
    if command == "plot":
        pytest.importorskip("matplotlib")
    assert elmo(command, *BASES[command], "-q").stderr == ""
    other_output = [
        f"other.{each}" if each in OUTPUTS else each for each in BASES[command]
    ]
    assert "\nTime: " in elmo(command, *other_output, "-v").stderr
