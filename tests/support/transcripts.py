"""Transcripts: commands and what they print, such as `tests/cli/answers.txt`.

    # A comment.
    = text.txt 'the cat sat\n'
    $ elmo perplexity text.txt --json
      {"sentences": 1, "tokens": 3, [...]}
    $ elmo embed text.txt out.h5 --gamma 2
    ! Error: --gamma: requires --mix. Add it, or remove --gamma.
    [2]

A line begins with what it is:

- `= NAME CONTENT` writes an input, for this command and all that follow. The content is
  a string or bytes of Python.
- `$ COMMAND` is a command. Programs of a shell may stand before `elmo`, and `< INPUT`
  after it.
- Two spaces: a line of standard output. `! `: a line of standard error.
- `[STATUS]`: the exit status, if it is not 0.
- Blank lines separate groups of commands.

`[...]` stands for any text, even several lines. Numbers with decimals on standard
output may differ by 1.5e-6. `golden/` is the folder of the golden models.

After `pytest --accept`, each command that printed something else has what it printed;
see `accept.py`.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import elmo
from tests.support.golden import GOLDEN

ANY_TEXT = "[...]"
TOLERANCE = 1.5e-6
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@dataclass(frozen=True)
class Printed:
    """What a command prints, and its exit status."""

    stdout: str
    stderr: str
    status: int

    def lines(self) -> list[str]:
        """Return the lines that show this in a transcript."""
        lines = [f"! {line}" for line in self.stderr.splitlines()]
        lines += [f"  {line}" for line in self.stdout.splitlines()]
        if self.status != 0:
            lines.append(f"[{self.status}]")
        return lines

    def matches(self, other: "Printed") -> bool:
        """Return whether a command that should print this printed `other`."""
        return (
            self.status == other.status
            and _matches(self.stderr, other.stderr, tolerance=0.0)
            and _matches(self.stdout, other.stdout, tolerance=TOLERANCE)
        )


@dataclass(frozen=True)
class Example:
    """A command in a transcript, with its inputs and what it should print."""

    path: Path
    """The transcript."""
    line: int
    """Number of the command's line, from 1."""
    n_lines: int
    """Number of lines below it that show what it prints."""
    command: str
    inputs: dict[str, str | bytes]
    expected: Printed

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line} {self.command}"[:80]


def each_example(test_file: str, name: str = "errors.txt") -> pytest.MarkDecorator:
    """Run a test with each `example` of the transcript beside the file of the test."""
    groups = read_transcript(Path(test_file).with_name(name))
    examples = [example for group in groups for example in group]
    return pytest.mark.parametrize("example", examples, ids=str)


def read_transcript(path: Path) -> list[list[Example]]:
    """Return the groups of examples in a transcript."""
    groups: list[list[Example]] = [[]]
    inputs: dict[str, str | bytes] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("= "):
            _, name, content = line.split(" ", 2)
            inputs[name] = ast.literal_eval(content)
        elif line.startswith("$ "):
            shown = _shown_lines(lines[number:])
            example = Example(
                path=path,
                line=number,
                n_lines=len(shown),
                command=line[2:],
                inputs=dict(inputs),
                expected=_read_printed(shown),
            )
            groups[-1].append(example)
            number += len(shown)
        elif line == "":
            groups.append([])
        elif not line.startswith("#"):
            raise ValueError(f"{path}:{number}: not a line of a transcript: {line}")
    return [group for group in groups if group]


def _shown_lines(lines: list[str]) -> list[str]:
    """Return the first of these lines, as far as they show what a command prints."""
    for index, line in enumerate(lines):
        if not line.startswith(("  ", "! ", "[")):
            return lines[:index]
    return lines


def _read_printed(lines: list[str]) -> Printed:
    """Read the lines below a command."""
    stdout = "".join(f"{line[2:]}\n" for line in lines if line.startswith("  "))
    stderr = "".join(f"{line[2:]}\n" for line in lines if line.startswith("! "))
    statuses = [int(line.strip("[]")) for line in lines if line.startswith("[")]
    return Printed(stdout, stderr, status=statuses[0] if statuses else 0)


def run_example(example: Example, *, may_leave_files: bool = False) -> Printed:
    """Write the inputs, run the command, and return its output."""
    if "--split-sentences" in example.command:
        pytest.importorskip("sentencex")
    write_inputs(example.inputs)
    before = sorted(os.listdir())
    printed = run_command(example.command)
    if printed.status != 0 and not may_leave_files:
        assert sorted(os.listdir()) == before, f"{example.command} left a file"
    return printed


def run_command(command: str) -> Printed:
    """Run a command, after programs of a shell if it begins with some.

    What the programs print is the standard input of `elmo`. Skip the test where a
    program is missing.
    """
    programs, _, arguments = f" {command}".rpartition(" elmo ")
    arguments, _, input_name = arguments.partition(" < ")
    stdin = None
    if programs.strip():
        stdin = _run_programs(programs.rstrip(" |;"))
    elif input_name:
        stdin = Path(input_name).read_bytes()
    result = elmo(*shlex.split(arguments), stdin=stdin)
    stderr = result.stderr.replace(f"{GOLDEN}/", "golden/")
    return Printed(result.stdout, stderr, status=result.exit_code)


def _run_programs(programs: str) -> bytes:
    """Run programs in a shell, and return their standard output."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash")
    done = subprocess.run([shell, "-c", programs], capture_output=True)
    if done.returncode == 127:
        pytest.skip(done.stderr.decode())
    return done.stdout


def write_inputs(inputs: dict[str, str | bytes]) -> None:
    """Write inputs to the current folder."""
    for name, content in inputs.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        else:
            path.write_bytes(content)


def _matches(expected: str, actual: str, tolerance: float) -> bool:
    """Return whether a text is the expected one, in which `[...]` is any text."""
    if ANY_TEXT in expected:
        parts = map(re.escape, expected.removesuffix("\n").split(ANY_TEXT))
        pattern = ".*".join(parts)
        return bool(re.fullmatch(pattern, actual.removesuffix("\n"), flags=re.DOTALL))
    if NUMBER.sub("0.0", expected) != NUMBER.sub("0.0", actual):
        return False
    expected_numbers = [float(number) for number in NUMBER.findall(expected)]
    actual_numbers = [float(number) for number in NUMBER.findall(actual)]
    return actual_numbers == pytest.approx(expected_numbers, rel=0.0, abs=tolerance)
