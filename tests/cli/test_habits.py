"""Habits at a command line: TAB, short options, `elmo help`, colours, pipes."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from elmo_cli.cli.command_list import COMMAND_GROUPS, COMMANDS, find_command
from elmo_cli.cli.main import main
from elmo_cli.records.formats import INPUT_FORMATS_BY_NAME
from tests.support.commands import elmo
from tests.support.table_files import write_table

pytestmark = pytest.mark.usefixtures("text_and_words")


@pytest.fixture
def text_and_words(folder: Path) -> None:
    Path("text.txt").write_text("The cat sat .\nA cat ran .\n")
    Path("words.txt").write_text("cat\n")


# Completion with TAB


def completed(line: str, shell: str = "bash") -> list[str]:
    """Return what a shell gets for TAB at the end of a line: in bash `type,value`."""
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_ELMO_COMPLETE": f"{shell}_complete",
    }
    runner = CliRunner(env=environment)
    return runner.invoke(main, prog_name="elmo").stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("elmo co", ["cosine", "convert", "completion"]),
        ("elmo embed in.txt out --lay", ["--layers", "--layout"]),
        (
            "elmo embed in.txt out --layers ",
            ["all", "average", "sum", "top", "word_emb"],
        ),
        ("elmo embed in.txt out --format ", ["hdf5", "jsonl", "parquet"]),
        ("elmo embed in.txt out --device c", ["cpu", "cuda"]),
        ("elmo embed in.txt out --model ori", ["original", "original-5.5b"]),
        ("elmo download sm", ["small"]),
        ("elmo train text --init-from mi", ["mini"]),
        ("elmo completion ", ["bash", "zsh", "fish"]),
        ("elmo help em", ["embed"]),
        ("elmo help l", ["layers"]),
        ("elmo plot a b c --layers ", ["average", "top", "1"]),
        *((f"elmo {command} --", ["--help"]) for command in COMMANDS),
    ],
)
def test_values_are_completed(line: str, expected: list[str]) -> None:
    assert set(expected) <= {item.removeprefix("plain,") for item in completed(line)}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json"])
def test_columns_of_the_input_are_completed(name: str) -> None:
    write_table(name, [{"item": 1, "sentence": "a"}])
    assert completed(f"elmo surprisal {name} --text-column ") == [
        "plain,item",
        "plain,sentence",
    ]
    assert completed(f"elmo embed {name} --keep-columns item,s") == [
        "plain,item,sentence"
    ]
    assert completed(f"elmo predict {name} --id-column i") == ["plain,item"]
    assert completed("elmo surprisal - --text-column ") == [""]


@pytest.mark.parametrize(
    "line",
    [
        "elmo embed ",
        "elmo embed in.txt ",
        "elmo embed in.txt out.hdf5 --weight-file ",
        "elmo perplexity ",
        "elmo predict ",
        "elmo surprisal ",
        "elmo convert ",
        "elmo word-vectors ",
        "elmo train ",
        "elmo distribute in ",
        "elmo info ./",
        "elmo neighbours bank 'a' ",
        "elmo embed in.txt out --model ./",
    ],
)
def test_files_are_completed_by_the_shell(line: str) -> None:
    assert any(item.startswith("file,") for item in completed(line))


def test_zsh_shows_the_descriptions_of_the_help() -> None:
    expected: dict[str, str] = {}
    for group in COMMAND_GROUPS.values():
        expected |= group
    lines = completed("elmo ", "zsh")
    assert dict(zip(lines[1::3], lines[2::3], strict=True)) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell: str) -> None:
    result = elmo("completion", shell)
    assert result.stderr == ""
    assert result.exit_code == 0
    assert f"_ELMO_COMPLETE={shell}_complete" in result.stdout


# Options


@pytest.mark.parametrize("name", COMMANDS)
def test_names_mean_one_thing_in_all_commands(name: str) -> None:
    options: dict[str, click.Parameter] = {}
    for parameter in find_command(name).params:
        for spelling in parameter.opts:
            options[spelling] = parameter
    assert options.get("-m") == options.get("--model")
    assert options.get("-f") == options.get("--format")
    if "--top" in options and name != "embed":
        assert "N" in str(options["--top"].metavar)
    if "--format" in options:
        choices = options["--format"].type.choices  # type: ignore[attr-defined]
        assert "json" not in choices
        assert ("jsonl" in choices) == (name != "occurrences")


# Help and colours


def test_formats_are_a_topic_of_help() -> None:
    topic = elmo("help", "formats").stdout
    assert elmo("help", "tokenizers").stdout == topic
    assert elmo("help", "csv").stdout == topic
    for name, each in INPUT_FORMATS_BY_NAME.items():
        suffixes = re.escape(", ".join(each.suffixes))
        assert re.search(rf"^  {name} .*{suffixes}$", topic, re.MULTILINE)
    for line in topic.splitlines():
        assert len(line) <= 91


@pytest.mark.parametrize("topic", ["layers", "numbers"])
def test_layers_and_numbers_are_topics_of_help(topic: str) -> None:
    page = elmo("help", topic).stdout
    assert page.startswith(topic.upper())
    assert elmo("help", topic.removesuffix("s")).stdout == page
    assert max(map(len, page.splitlines())) <= 91


def test_commands_that_read_formats_name_the_topic() -> None:
    n_commands = 0
    for name in COMMANDS:
        text = elmo("help", name).stdout
        if name != "distribute" and "--input-format" in text:
            n_commands += 1
            assert "`elmo help formats`" in " ".join(text.split())
    assert n_commands > 5


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("environment", "is_red"), [("", True), ("NO_COLOR=1 ", False)]
)
def test_an_error_is_red_on_a_terminal(environment: str, is_red: bool) -> None:
    code = "import pty, sys; sys.exit(pty.spawn(['sh', '-c', sys.argv[1]]))"
    command = f"{environment}{sys.executable} -m elmo_cli embed no.txt out.hdf5"
    process = subprocess.run(
        [sys.executable, "-c", code, command],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"no.txt: no such file\r\n" in process.stdout
    assert (b"\x1b[1;31mError:\x1b[0m no.txt" in process.stdout) == is_red


def test_an_error_in_a_pipe_is_not_red() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "elmo_cli", "embed", "no.txt", "out.hdf5"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert piped.stderr.startswith(b"Error: no.txt")
