"""Completion in a shell with TAB."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import elmo
from table_files import write_table

from elmo_cli.cli import COMMAND_GROUPS, COMMANDS, main


def completed(line: str, shell: str = "bash") -> list[str]:
    """Return the lines that a shell gets for TAB at the end of a line, for bash `type,value`."""
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_ELMO_COMPLETE": f"{shell}_complete",
    }
    return CliRunner(env=environment).invoke(main, prog_name="elmo").stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("elmo co", ["cosine", "convert", "completion"]),
        ("elmo embed in.txt out --lay", ["--layers", "--layout"]),
        ("elmo embed in.txt out --layers ", ["all", "average", "sum", "top", "word_emb"]),
        ("elmo embed in.txt out --format ", ["hdf5", "jsonl", "parquet"]),
        ("elmo embed in.txt out --device c", ["cpu", "cuda"]),
        ("elmo embed in.txt out --model ori", ["original", "original-5.5b"]),
        ("elmo download sm", ["small"]),
        ("elmo train text --init-from mi", ["mini"]),
        ("elmo completion ", ["bash", "zsh", "fish"]),
        ("elmo help em", ["embed"]),
        ("elmo plot a b c --mean-layers ", ["all", "top", "1"]),
    ],
)
def test_values_are_completed(line: str, expected: list[str]) -> None:
    assert set(expected) <= {item.removeprefix("plain,") for item in completed(line)}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json"])
def test_columns_of_the_input_are_completed(name: str, folder: Path) -> None:
    write_table(name, [{"item": 1, "sentence": "a"}])
    assert completed(f"elmo surprisal {name} --text-column ") == ["plain,item", "plain,sentence"]
    assert completed(f"elmo embed {name} --keep-columns item,s") == ["plain,item,sentence"]
    assert completed(f"elmo predict --file {name} --id-column i") == ["plain,item"]
    assert completed("elmo surprisal - --text-column ") == [""]


def test_files_are_completed_by_the_shell() -> None:
    for line in (
        *("elmo embed ", "elmo embed in.txt ", "elmo embed in.txt out.hdf5 --weight-file "),
        *("elmo perplexity ", "elmo surprisal ", "elmo convert "),
        *("elmo word-vectors ", "elmo train ", "elmo distribute in ", "elmo info ./"),
        *("elmo neighbours bank 'a' ", "elmo embed in.txt out --model ./"),
    ):
        assert [item for item in completed(line) if item.startswith("file,")], line
    assert completed("elmo predict ") == [""]  # a text


def test_zsh_shows_the_descriptions_of_the_help() -> None:
    groups = COMMAND_GROUPS.values()
    expected = {name: text for group in groups for name, (_, text) in group.items()}
    lines = completed("elmo ", "zsh")
    assert dict(zip(lines[1::3], lines[2::3], strict=True)) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str) -> None:
    result = elmo("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_ELMO_COMPLETE={shell}_complete" in result.stdout


def test_every_command_completes_its_options() -> None:
    for command in COMMANDS:
        assert "plain,--help" in completed(f"elmo {command} --")
