"""Exit status of mistakes: 2 for wrong options, 1 for what fails in a run, in every command."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import elmo
from strategies import make_language_model, small_architecture

from elmo_cli import ElmoEmbedder
from elmo_cli.cli import COMMANDS, find_command

LINES = "the cat sat\nthe dog sat\nthe cat\na cat\nno cat ran\n"
ROWS = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8").splitlines()
BASES = {name: words for _, name, *words in (shlex.split(row) for row in ROWS if row[:2] == "= ")}
"""A command line of each command that is right."""
MISTAKES = {row[2:]: ROWS[n + 1] for n, row in enumerate(ROWS) if row[:2] == "$ "}
"""Options, and the status of a mistake with a pattern that its message has in every command."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the inputs of all commands."""
    folder = tmp_path_factory.mktemp("status")
    (folder / "text.txt").write_text(LINES)
    (folder / "words.txt").write_text("cat\n")
    (folder / "a.pdf").write_bytes(b"%PDF-1.7\n\xff")
    (folder / "latin1.txt").write_bytes(b"caf\xe9\n")
    (folder / "bad.csv").write_text("no,columns\n1,2\n")
    (folder / "model").mkdir()
    weight, bias = np.zeros((8, 3)), np.zeros(8)
    make_language_model(small_architecture(), 1, folder / "model", weight=weight, bias=bias)
    ElmoEmbedder(model=folder / "model").embed_file(folder / "text.txt", folder / "v.h5")
    return folder


@pytest.fixture(autouse=True)
def inputs(prepared: Path, folder: Path) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)


def test_every_command_has_a_base() -> None:
    assert sorted(BASES) == sorted(COMMANDS)


@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_has_one_status_in_every_command(options: str) -> None:
    status, message = MISTAKES[options].split(" ", 1)
    names = {part for part in options.split() if part.startswith("--")}
    n_commands = 0
    for command, arguments in BASES.items():
        base = list(arguments)
        if names & {"--model", "--words"} & {*base}:  # The mistake takes the place of the option.
            place = base.index(options.split()[0])
            del base[place : place + 2]
        known = {name for each in find_command(command).params for name in each.opts}
        if not names <= known or names & {*base}:
            continue
        result = elmo(command, *base, *options.split())
        n_commands += 1
        found = (result.exit_code, bool(re.search(message, result.stderr)))
        assert found == (int(status), True), f"{command}: {result.exit_code} {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert n_commands


@pytest.mark.parametrize("name", ["missing.txt", "a.pdf", "latin1.txt", "bad.csv"])
def test_an_input_that_cannot_be_read_has_status_1(name: str) -> None:
    for command in ("embed", "usages", "perplexity", "surprisal", "predict", "train", "distribute"):
        arguments = [name if each == "text.txt" else each for each in BASES[command]]
        result = elmo(command, *arguments)
        assert result.exit_code == 1, f"{command}: {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", BASES)
def test_v_prints_more_and_q_errors_only(command: str) -> None:
    if command == "plot":
        pytest.importorskip("matplotlib")
    outputs = ("out.h5", "out.svg", "out.npz", "out.safetensors", "new", "parts")
    other = [f"other.{each}" if each in outputs else each for each in BASES[command]]
    assert elmo(command, *BASES[command], "-q").stderr == ""
    assert "\nTime: " in elmo(command, *other, "-v").stderr
