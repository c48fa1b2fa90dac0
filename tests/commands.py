"""The command `elmo` as the tests run it: in this process, or in one of its own."""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import GOLDEN

from elmo_cli.cli import main

TINY = GOLDEN / "relu"
"""A model that loads at once: (3, T, 32)."""
LOADED = f"Model: {TINY}\n"
"""Line that its use logs on standard error."""


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        """Return True, as a terminal does."""
        return True


def elmo(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run `elmo ARGUMENTS` in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def run_r(code: str) -> str:
    """Run code in R, and return what it prints. Skip the test where there is no R."""
    if shutil.which("Rscript") is None:
        pytest.skip("needs R")
    return subprocess.run(
        ["Rscript", "--vanilla", "-e", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    ).stdout


def start_elmo(*arguments: str | Path, **settings: Any) -> subprocess.Popen[bytes]:
    """Start `python -m elmo_cli ARGUMENTS`, its standard error in a pipe."""
    command = [sys.executable, "-m", "elmo_cli", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **settings)


def without_size(errors: str) -> str:
    """Return standard error without the line with the size of the output."""
    return re.sub(r"(?m)^Output: about .* free\n", "", errors)


def assert_fails(result: Result, message: str, *, loads: bool = False) -> None:
    """Assert one line of error, after the model's line if it `loads`, and exit status 1."""
    assert without_size(result.stderr) == f"{LOADED if loads else ''}Error: {message}\n"
    assert (result.exit_code, result.stdout) == (1, "")


def assert_misused(result: Result, message: str) -> None:
    """Assert the usage, after the model's line if it loads, one line of error and status 2."""
    assert result.stderr.removeprefix(LOADED).startswith("Usage: ")
    assert result.stderr.endswith(f"\n\nError: {message}\n")
    assert (result.exit_code, result.stdout) == (2, "")
