"""Commands and what they print: rows, errors with their remedies, and mistakes of all commands.

In `answers.txt`, `= NAME CONTENT` writes an input, its content a literal of Python, and `$ COMMAND
[< INPUT]` is a command. Two spaces begin a line of its standard output, `!` a line of its standard
error. `word_model` in `conftest.py` lists the bits of each word.
"""

import ast
import gzip
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import pytest

from elmo_cli.cli import COMMANDS, find_command
from tests.support.commands import elmo
from tests.support.strategies import make_language_model, small_architecture
from tests.support.transcripts import (
    Transcript,
    each_transcript,
    read_rows,
    write_inputs,
)

# Rows, to the letter, for a model of known probabilities

NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def read_answers() -> list[Any]:
    """Return the commands, each with its inputs and the lines that it prints."""
    answers: list[Any] = []
    inputs: dict[str, str | bytes] = {}
    lines: list[str] = []
    for line in read_rows(__file__, "answers.txt"):
        if line.startswith("= "):
            _, name, content = line.split(" ", 2)
            inputs = {**inputs, name: ast.literal_eval(content)}
        elif line.startswith("$ "):
            lines = []
            answers.append(pytest.param(line[2:], inputs, lines, id=line[2:62]))
        elif line[:2] in ("  ", "! "):
            lines.append(line)
    return answers


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize(("command", "inputs", "lines"), read_answers())
def test_a_command_prints_its_rows(
    command: str,
    inputs: dict[str, str | bytes],
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "--split-sentences" in command:
        pytest.importorskip("sentencex")
    monkeypatch.setenv("ELMO_MODEL", "model")
    write_inputs(inputs)
    command, _, stdin = command.partition(" < ")
    result = elmo(
        *shlex.split(command), stdin=Path(stdin).read_bytes() if stdin else None
    )
    rows, messages = ([line[2:] for line in lines if line[0] == kind] for kind in " !")
    assert (result.exit_code, result.stderr.splitlines()) == (
        0,
        ["Model: model", *messages],
    )
    actual, expected = result.stdout, "".join(f"{row}\n" for row in rows)
    assert NUMBER.sub("0.0", actual) == NUMBER.sub("0.0", expected)
    numbers = [[*map(float, NUMBER.findall(text))] for text in (actual, expected)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1.5e-6)


# Errors, and their remedies

OPTIONS = "--options-file model/options.json --output new --steps 1"


def cases() -> list[str]:
    """Return the cases: commands, each with a part of what it prints.

    `!` begins a case: a command whose message has a remedy. `$` is a remedy of it. The last one of
    a case succeeds.
    """
    return (
        "\n".join(read_rows(__file__, "remedies.txt")).removeprefix("! ").split("\n! ")
    )


def run(command: str) -> tuple[int, str]:
    """Run a command, after programs of a shell if it has some; return its status and output."""
    programs, _, arguments = f" {command}".rpartition(" elmo ")
    content = None
    if programs.strip():
        shell = shutil.which("bash") or pytest.skip("needs bash")
        done = subprocess.run(
            [shell, "-c", programs.rstrip(" |;")], capture_output=True
        )
        if done.returncode == 127:
            pytest.skip(done.stderr.decode())
        content = done.stdout
    result = elmo(*shlex.split(arguments.replace("$OPTIONS", OPTIONS)), stdin=content)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all inputs, models and outputs of commands."""
    folder = tmp_path_factory.mktemp("prepared")
    inputs: dict[str, str | bytes] = {}
    lines = read_rows(__file__, "inputs.txt")
    for line in lines:
        if line.startswith("= "):
            _, name, content = line.split(" ", 2)
            literal, _, number = content.partition(" * ")
            inputs[name] = ast.literal_eval(literal) * int(number or 1)
    (folder / "model").mkdir()
    make_language_model(small_architecture(), 1, folder / "model")
    without = shutil.ignore_patterns("softmax.hdf5", "vocab.txt")
    shutil.copytree(folder / "model", folder / "plain", ignore=without)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(inputs)
        patch.setenv("ELMO_MODEL", "model")
        for command in (line[2:] for line in lines if line.startswith("$ ")):
            assert elmo(*command.split()).exit_code == 0
    shutil.copy(folder / "model/softmax.hdf5", folder)
    shutil.copy(folder / "model/vocab.txt", folder / "vocabulary")
    weights = (folder / "model/weights.hdf5").read_bytes()
    (folder / "weights.hdf5.gz").write_bytes(gzip.compress(weights))
    for name in ("copy.h5", "bare.h5", "gone.h5"):
        shutil.copy(folder / "v.h5", folder / name)
    with (
        h5py.File(folder / "bare.h5", "r+") as bare,
        h5py.File(folder / "gone.h5", "r+") as gone,
    ):
        gone.attrs["model"] = "gone/model"
        for name in list(bare.attrs):
            del bare.attrs[name]
    return folder


@pytest.mark.parametrize(
    "case", cases(), ids=lambda case: case.partition("\n")[0][5:60]
)
def test_the_remedy_of_a_message_works(
    case: str, prepared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    monkeypatch.setenv("ELMO_MODEL", "model")
    lines = [line.removeprefix("$ ") for line in case.split("\n")]
    for command, expected in zip(lines[::2], lines[1::2], strict=True):
        status, output = run(command)
        assert expected in output, f"{command}\n{output}"
    assert status == 0, output


@each_transcript(__file__)
def test_an_error_has_this_text(
    transcript: Transcript, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--split-sentences" in transcript.command:
        pytest.importorskip("sentencex")
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("ELMO_MODEL", "model")
    transcript.check()


# Mistakes: status 2 for wrong options, 1 for what fails in a run, in every command

ROWS = read_rows(__file__, "mistakes.txt")
BASES = {
    name: words
    for _, name, *words in (shlex.split(row) for row in ROWS if row[:2] == "= ")
}
"""A command line of each command that is right."""
MISTAKES = {row[2:]: ROWS[n + 1] for n, row in enumerate(ROWS) if row[:2] == "$ "}
"""Options, and the status of a mistake with a pattern that its message has in every command."""


@pytest.fixture
def linked_inputs(prepared: Path, folder: Path) -> None:
    """Link all inputs into the current folder, for commands that write new files only."""
    for path in prepared.iterdir():
        Path(path.name).symlink_to(path)


def test_every_command_has_a_base() -> None:
    assert sorted(BASES) == sorted(COMMANDS)


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_has_one_status_in_every_command(options: str) -> None:
    status, message = MISTAKES[options].split(" ", 1)
    names = {part for part in options.split() if part.startswith("--")}
    n_commands = 0
    for command, arguments in BASES.items():
        base = list(arguments)
        if (
            names & {"--model", "--words"} & {*base}
        ):  # The mistake takes the place of the option.
            place = base.index(options.split()[0])
            del base[place : place + 2]
        known = {name for each in find_command(command).params for name in each.opts}
        if not names <= known or names & {*base}:
            continue
        result = elmo(command, *base, *options.split())
        n_commands += 1
        found = (result.exit_code, bool(re.search(message, result.stderr)))
        assert found == (int(status), True), (
            f"{command}: {result.exit_code} {result.stderr}"
        )
        assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert n_commands


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize("name", ["none.txt", "utf16.txt", "latin.txt", "items.csv"])
def test_an_input_that_cannot_be_read_has_status_1(name: str) -> None:
    for command in (
        "embed",
        "usages",
        "perplexity",
        "surprisal",
        "predict",
        "train",
        "distribute",
    ):
        arguments = [name if each == "text.txt" else each for each in BASES[command]]
        result = elmo(command, *arguments)
        assert result.exit_code == 1, f"{command}: {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.usefixtures("linked_inputs")
@pytest.mark.parametrize("command", BASES)
def test_v_prints_more_and_q_errors_only(command: str) -> None:
    if command == "plot":
        pytest.importorskip("matplotlib")
    outputs = ("out.h5", "out.svg", "out.npz", "out.safetensors", "new", "parts")
    other = [f"other.{each}" if each in outputs else each for each in BASES[command]]
    assert elmo(command, *BASES[command], "-q").stderr == ""
    assert "\nTime: " in elmo(command, *other, "-v").stderr
