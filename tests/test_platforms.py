"""The package where there is no fcntl, fork, poll, pread and such, as on Windows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
EVERYTHING = """
import no_posix, pkgutil, importlib, elmo_cli
from click.testing import CliRunner
from elmo_cli.cli import COMMANDS, find_command, main
for module in pkgutil.walk_packages(elmo_cli.__path__, "elmo_cli."):
    if module.name != "elmo_cli.__main__":
        importlib.import_module(module.name)
for name in COMMANDS:
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0, name
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def test_every_module_and_command_is_there_without_posix() -> None:
    process = run("-c", EVERYTHING)
    assert (process.returncode, process.stdout) == (0, ""), process.stderr


@pytest.mark.long
def test_the_core_of_the_suite_passes_without_posix() -> None:
    core = ("outputs/test_writer", "outputs/test_resumable_file", "cli/test_cli_embed")
    paths = [str(TESTS / f"{name}.py") for name in core]
    others = ("-k", "not planted_link and not ctrl_c")  # Windows has no such links and signals
    process = run("-m", "pytest", "-n", "0", "-q", "-p", "no_posix", *others, *paths)
    assert process.returncode == 0, process.stdout[-5000:]
