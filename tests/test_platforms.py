"""Systems without fcntl, fork or poll, an imitated Windows, and locks."""

import errno
import ntpath
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import pytest

from elmo_cli import open_activations
from elmo_cli.errors.exceptions import InputError, ModelError, OutputError, WeightsError
from elmo_cli.files import disk
from elmo_cli.files.atomic import new_file
from elmo_cli.model.tensor_files import open_tensors
from elmo_cli.pretrained.find_model import find_files_by_name
from tests.support.commands import TINY, elmo
from tests.support.layouts import lines, write

pytestmark = pytest.mark.usefixtures("folder")

# Without POSIX

TESTS = Path(__file__).parent
EVERYTHING = """
import tests.support.no_posix, pkgutil, importlib, elmo_cli
from click.testing import CliRunner
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.main import main
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
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
    )


def test_every_module_and_command_is_there_without_posix() -> None:
    process = run("-c", EVERYTHING)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "", process.stderr


@pytest.mark.long
def test_the_core_of_the_suite_passes_without_posix() -> None:
    core = ("outputs/test_writer", "files/test_resumable_file", "cli/test_cli_embed")
    paths = [str(TESTS / f"{name}.py") for name in core]
    options = ["-m", "pytest", "-n", "0", "-q", "-p", "tests.support.no_posix", "-k"]
    # Windows has neither.
    process = run(*options, "not planted_link and not ctrl_c", *paths)
    assert process.returncode == 0, process.stdout[-5000:]


# Windows


class SharingError(PermissionError):
    """Error of Windows for a file that another program has open."""

    winerror = 32


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Return a list of errors, each of which one call of `os.replace` raises."""
    errors: list[Exception] = []
    replace = os.replace

    def try_to_replace(source: Path, target: Path) -> None:
        if errors:
            raise errors.pop()
        replace(source, target)

    monkeypatch.setattr(os, "replace", try_to_replace)
    monkeypatch.setattr(disk, "OPEN_SECONDS", 0.0)
    monkeypatch.setattr(disk, "RETRY_SECONDS", 0.0)
    return errors


def test_replace_waits_for_another_program(
    refusals: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "OPEN_SECONDS", 60.0)
    refusals += [SharingError()] * 3
    Path("new").write_text("new")
    Path("old").write_text("old")
    disk.replace(Path("new"), Path("old"))
    assert Path("old").read_text() == "new"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            SharingError(),
            "another program has it open. Close it, and run the command again",
        ),
        (PermissionError(1, "Operation not permitted"), "Operation not permitted"),
    ],
)
def test_replaced_says_why_a_file_cannot_be_written(
    error: Exception, reason: str, refusals: list[Exception]
) -> None:
    refusals.append(error)
    with pytest.raises(OutputError) as caught, new_file("out.txt") as file:
        file.write(b"x")
    assert str(caught.value) == f"out.txt: cannot be written: {reason}"
    assert os.listdir() == []


def test_embed_finishes_after_the_output_was_closed(refusals: list[Exception]) -> None:
    Path("text.txt").write_text("a b\nc\n")
    refusals.append(SharingError())
    result = elmo("embed", "text.txt", "out.hdf5", "--model", TINY)
    assert result.exit_code == 1
    remedy = "Close the program that has it open and run the command again"
    assert remedy in result.stderr
    assert not Path("out.hdf5").exists()
    result = elmo("embed", "text.txt", "out.hdf5", "--model", TINY)
    assert result.exit_code == 0
    assert Path("out.hdf5").exists()


def test_paths_of_windows_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.pretrained.find_model.os.sep", "\\")
    monkeypatch.setattr("elmo_cli.pretrained.find_model.os.altsep", "/")
    monkeypatch.setattr(
        "elmo_cli.pretrained.find_model.os.path.splitdrive", ntpath.splitdrive
    )
    for path in ("C:\\models\\elmo", "models/elmo", "..\\elmo", "C:elmo"):
        with pytest.raises(ModelError, match="no such model folder or zip file"):
            find_files_by_name(path)


# Locks

REMEDY = "set the environment variable HDF5_USE_FILE_LOCKING to FALSE"


class Lockless(h5py.File):  # type: ignore[misc] # h5py has no types
    """File on a disk without locks, where HDF5 opens only with `locking=False`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        if settings.get("locking") is not False:
            reason = (
                f"Unable to open file (unable to lock file, errno = {errno.ENOLCK})"
            )
            raise OSError(errno.ENOLCK, reason)
        super().__init__(*args, **settings)


def test_files_are_read_where_there_are_no_locks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(lines("a", "b"), "out.hdf5", "allennlp")
    monkeypatch.setattr(h5py, "File", Lockless)
    with open_activations("out.hdf5") as activations:
        assert len(activations) == 2
    with open_tensors(TINY / "weights.hdf5") as file:
        assert "char_embed" in file.names


def test_error_of_a_locked_file_names_the_remedy() -> None:
    fcntl = pytest.importorskip("fcntl")
    write(lines("a", "b"), "out.hdf5", "allennlp")
    with open("out.hdf5", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError) as caught:
            open_activations("out.hdf5")
        with pytest.raises(WeightsError, match=REMEDY), open_tensors("out.hdf5"):
            pass
    assert str(caught.value) == (
        f"out.hdf5: cannot be read: HDF5 cannot lock it ({os.strerror(errno.EAGAIN)}). "
        f"Close the program that writes it, or {REMEDY}."
    )


def test_writing_without_locks_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    no_locks = Mock(side_effect=OSError(errno.ENOLCK, "No locks"))
    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", no_locks)
    write(lines("a"), "out.hdf5", "allennlp")
    warning = "the file system has no locks. Let only one process write there."
    assert warning in caplog.text
