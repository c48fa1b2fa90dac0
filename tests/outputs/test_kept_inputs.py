"""Files that a command reads are never written over, by any of their names."""

import os
import shutil
from pathlib import Path

import click
import pytest
from commands import TINY, elmo

from elmo_cli.cli import COMMANDS, find_command


@pytest.fixture(autouse=True)
def inputs(folder: Path) -> None:
    """Write a model, a text, words and a picture into the current folder."""
    shutil.copytree(TINY, "m")
    for name in ("t.txt", "w.txt", "p.svg"):
        Path(name).write_text("bank\n")
    Path("link.txt").symlink_to("w.txt")
    os.link("w.txt", "twin.txt")


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "embed t.txt {t.txt} --format jsonl --model m",
        "embed w.txt {link.txt} --format jsonl --model m",
        "embed t.txt {m/weights.hdf5} --model m",
        "embed t.txt {m/options.json} --format npz --model m",
        "embed t.txt {w.txt} --vocabulary-file w.txt --format npz",
        "usages t.txt {w.txt} --words w.txt --format jsonl --model m",
        "usages t.txt {m/weights.hdf5} --words w.txt --model m",
        "word-vectors w.txt {twin.txt} --model m",
        "word-vectors w.txt {m/weights.hdf5} --model m",
        "word-vectors {t.txt} --corpus t.txt --model m",
        "convert m/weights.hdf5 {m/weights.hdf5}",
        "surprisal p.svg --plot {p.svg} --model m",
        "surprisal t.txt --frequencies p.svg --plot {p.svg} --model m",
        "plot bank p.svg {p.svg}",
        "change p.svg t.txt --plot {p.svg}",
    ],
)
def test_no_command_writes_over_a_file_that_it_reads(command: str) -> None:
    before = contents()
    output = command[command.index("{") + 1 : command.index("}")]
    result = elmo(*command.replace(f"{{{output}}}", output).split(), "--overwrite")
    last = f"Error: {output}: the output is also an input. Choose another output."
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, last)
    assert contents() == before


@pytest.mark.parametrize("start", ["--options-file m/options.json", "--init-from m"])
def test_training_does_not_write_over_the_model_it_starts_from(start: str) -> None:
    before = contents()
    result = elmo("train", "t.txt", *start.split(), "--output", "m")
    assert (result.exit_code, result.stderr.count("Error: m: ")) == (1, 1)
    assert contents() == before


@pytest.mark.parametrize(
    "command",
    [
        "word-vectors --model m w.txt out.tsv",
        "convert m/weights.hdf5 out.hdf5",
        "surprisal t.txt --plot out.svg",
    ],
)
def test_a_partial_file_of_another_program_is_kept(command: str) -> None:
    partial = Path(f"{command.split()[-1]}.partial")
    partial.write_text("a download")
    assert elmo(*command.split()).exit_code == 0
    assert partial.read_text() == "a download"
    assert not list(Path().glob("*.elmo-partial"))


def test_every_command_that_overwrites_names_its_output_out() -> None:
    for name in COMMANDS:
        parameters = find_command(name).params
        if any("--overwrite" in parameter.opts for parameter in parameters):
            paths = [each.metavar for each in parameters if isinstance(each.type, click.Path)]
            assert any((metavar or "").endswith(("OUT", "OUTPUT")) for metavar in paths), name
