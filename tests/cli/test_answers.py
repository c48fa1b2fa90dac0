"""Commands that print rows: what they print, to the letter, for a model of known probabilities.

In `answers.txt`, `= NAME CONTENT` writes an input, its content a literal of Python, and `$ COMMAND
[< INPUT]` is a command. Two spaces begin a line of its standard output, `!` a line of its standard
error. `word_model` in `conftest.py` lists the bits of each word.
"""

import ast
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import elmo
from transcripts import write_inputs

NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


class Answer(NamedTuple):
    """A command, its inputs and what it prints."""

    command: str
    inputs: dict[str, str | bytes]
    stdout: list[str]
    stderr: list[str]


def read_answers() -> list[Answer]:
    answers: list[Answer] = []
    inputs: dict[str, str | bytes] = {}
    text = Path(__file__).with_name("answers.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("= "):
            _, name, content = line.split(" ", 2)
            inputs[name] = ast.literal_eval(content)
        elif line.startswith("$ "):
            answers.append(Answer(line[2:], dict(inputs), [], []))
        elif line[:2] in ("  ", "! "):
            (answers[-1].stderr if line[0] == "!" else answers[-1].stdout).append(line[2:])
    return answers


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize("answer", read_answers(), ids=lambda answer: answer.command[:60])
def test_a_command_prints_its_rows(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--split-sentences" in answer.command:
        pytest.importorskip("sentencex")
    monkeypatch.setenv("ELMO_MODEL", "model")
    write_inputs(answer.inputs)
    command, _, stdin = answer.command.partition(" < ")
    result = elmo(*shlex.split(command), stdin=Path(stdin).read_bytes() if stdin else None)
    assert (result.exit_code, result.stderr.splitlines()) == (0, ["Model: model", *answer.stderr])
    actual, expected = result.stdout, "".join(f"{line}\n" for line in answer.stdout)
    assert NUMBER.sub("0.0", actual) == NUMBER.sub("0.0", expected)
    numbers = [[*map(float, NUMBER.findall(text))] for text in (actual, expected)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1.5e-6)
