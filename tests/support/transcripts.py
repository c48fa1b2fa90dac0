"""Transcripts of commands that fail: inputs, command, status and message, to the letter.

`= NAME CONTENT` writes an input, its content a literal of Python. `$ COMMAND [< INPUT]` is a
command, and `embed INPUT o.h5` of the latest input the default. `STATUS MESSAGE` is what all
commands since the last message end with; `STATUS+ MESSAGE` if they load the model first.
"""

import ast
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import elmo, without_size


@dataclass(frozen=True)
class Transcript:
    """A command that fails, and what it says."""

    command: str
    inputs: dict[str, str | bytes]
    loads: bool
    status: int
    message: str

    def __str__(self) -> str:
        return f"{self.command} {self.message}"[:90]

    def check(self) -> None:
        """Run the command; it says this, prints nothing else, and leaves no file."""
        write_inputs(self.inputs)
        before = sorted(os.listdir())
        command, _, stdin = self.command.partition(" < ")
        result = elmo(
            *shlex.split(command), stdin=Path(stdin).read_bytes() if stdin else None
        )
        *first, last = without_size(result.stderr).splitlines(keepends=True)
        assert (last, result.stdout) == (f"Error: {self.message}\n", ""), result.stderr
        starts = ["Model: "] * self.loads + ["Usage: "] * (self.status == 2)
        assert [line[:7] for line in first[: len(starts)]] == starts, result.stderr
        assert self.status == 2 or len(first) == len(starts), result.stderr
        assert result.exit_code == self.status
        assert sorted(os.listdir()) == before


def read_rows(test_file: str, name: str) -> list[str]:
    """Return the lines of a file beside a test's, without comments and blank lines."""
    text = Path(test_file).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("# ")]


def each_transcript(test_file: str) -> pytest.MarkDecorator:
    """Run a test with each `transcript` of the errors.txt beside its file."""
    transcripts = read_transcripts(Path(test_file).with_name("errors.txt"))
    return pytest.mark.parametrize("transcript", transcripts, ids=str)


def read_transcripts(path: Path) -> list[Transcript]:
    """Read a file of transcripts."""
    transcripts: list[Transcript] = []
    inputs: dict[str, str | bytes] = {}
    commands: list[str] = []
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "=":
            name, _, content = rest.partition(" ")
            inputs[name] = ast.literal_eval(content)
        elif kind == "$":
            commands.append(rest)
        elif kind not in ("", "#"):
            status, loads = int(kind[0]), kind.endswith("+")
            for command in commands or [f"embed {name} o.h5"]:
                transcripts.append(
                    Transcript(command, dict(inputs), loads, status, rest)
                )
            commands = []
    return transcripts


def write_inputs(inputs: dict[str, str | bytes]) -> None:
    """Write inputs to the current folder."""
    for name, content in inputs.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(
            content.encode() if isinstance(content, str) else content
        )
