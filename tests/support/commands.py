"""The command `elmo` as the tests run it: in this process, or in one of its own."""

import atexit
import io
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import pytest
from click.testing import CliRunner, Result

from elmo_cli.cli.main import main
from elmo_cli.cli.stderr import LineFormatter
from tests.support.golden import GOLDEN

TINY = GOLDEN / "relu"
"""A model that loads at once: (3, T, 32)."""


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        """Return True, as a terminal does."""
        return True


class _FormatOfCommands(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler that logs nothing, but whose format the progress bars use.

    pytest has handlers of its own, so that a command adds none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())

    @property
    def stream(self) -> TextIO:
        """Standard error, which a runner of commands replaces."""
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        pass

    def emit(self, record: logging.LogRecord) -> None:
        """Do nothing."""


def elmo(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run `elmo ARGUMENTS` in this process."""
    handler = _FormatOfCommands()
    logging.getLogger().addHandler(handler)
    try:
        return CliRunner().invoke(
            main, [str(argument) for argument in arguments], input=stdin
        )
    finally:
        logging.getLogger().removeHandler(handler)


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


ROOT = Path(__file__).parents[2]
"""The checkout, from which the suite is imported."""
SUPPORT = Path(__file__).parent
PROGRAMS = SUPPORT / "programs"
"""Folder of programs that tests run in processes of their own."""


@cache
def python() -> tuple[str, ...]:
    """Return the beginning of a command that runs `python ARGUMENTS`.

    On Linux it is forked from a process that has imported torch; see `fork_server.py`.
    A test whose subject is the start of Python takes `sys.executable`.
    """
    if sys.platform != "linux":
        return (sys.executable,)
    folder = tempfile.mkdtemp()
    address = f"{folder}/server"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, SUPPORT / "fork_server.py", str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "OMP_NUM_THREADS": "1",  # Idle threads of many processes spin.
            },
            pass_fds=[listener.fileno()],
        )

    atexit.register(shutil.rmtree, folder)
    atexit.register(server.communicate)  # It is called first.
    return (sys.executable, "-I", "-S", str(SUPPORT / "fork_client.py"), address)


class Forked(subprocess.Popen[bytes]):
    """`python ARGUMENTS`, forked: signals reach the process itself."""

    stdin: Any
    stdout: Any
    stderr: Any

    def __init__(self, *arguments: str | Path, **settings: Any) -> None:
        super().__init__([*python(), *map(str, arguments)], **settings)

    def send_signal(self, sig: int) -> None:
        """Send a signal, once the process is there."""
        if len(python()) == 1 or self.poll() is not None:
            super().send_signal(sig)
            return
        file = Path(f"{python()[-1]}.{self.pid}")
        while not (file.exists() and file.read_text().endswith("\n")):
            time.sleep(0.001)
        os.kill(int(file.read_text()), sig)


def run_python(
    *arguments: str | Path, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS`, forked, with its output as text."""
    settings = {
        "capture_output": True,
        "text": True,
        "check": False,
        "timeout": 300,
        **settings,
    }
    return subprocess.run([*python(), *map(str, arguments)], **settings)


def start_elmo(*arguments: str | Path, **settings: Any) -> Forked:
    """Start `python -m elmo_cli ARGUMENTS`, its standard error in a pipe."""
    return Forked("-m", "elmo_cli", *arguments, stderr=subprocess.PIPE, **settings)


def assert_fails(result: Result, message: str) -> None:
    """Assert one line of error, and exit status 1."""
    assert result.stderr == f"Error: {message}\n"
    assert result.exit_code == 1
    assert result.stdout == ""


def assert_misused(result: Result, message: str) -> None:
    """Assert one line of error, and exit status 2."""
    assert result.stderr == f"Error: {message}\n"
    assert result.exit_code == 2
    assert result.stdout == ""
