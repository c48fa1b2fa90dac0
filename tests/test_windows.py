"""Differences of Windows, as far as they can be imitated elsewhere."""

import ntpath
import os
from pathlib import Path

import pytest
from commands import TINY, elmo

from elmo_cli import atomic
from elmo_cli.atomic import replace_file, replaced
from elmo_cli.errors import ModelError, OutputError
from elmo_cli.pretrained.find import find_model

pytestmark = pytest.mark.usefixtures("folder")


class SharingError(PermissionError):
    """Error of Windows for a file that another program has open."""

    winerror = 32


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let another program have each target open for the number of attempts in the list."""
    left, replace = [0], os.replace

    def try_to_replace(source: Path, target: Path) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise SharingError(13, "Access is denied", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", try_to_replace)
    monkeypatch.setattr(atomic, "_OPEN_SECONDS", 0.0)
    monkeypatch.setattr(atomic, "_RETRY_SECONDS", 0.0)
    return left


def test_replace_file_waits_for_another_program(
    held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_OPEN_SECONDS", 60.0)
    held[0] = 3
    Path("new").write_text("new")
    Path("old").write_text("old")
    replace_file(Path("new"), Path("old"))
    assert Path("old").read_text() == "new"


def test_replaced_names_a_file_that_stays_open(held: list[int]) -> None:
    held[0] = 10
    with pytest.raises(OutputError) as caught, replaced("out.txt") as partial:
        partial.write_text("x")
    assert str(caught.value) == (
        "out.txt: cannot be written: another program has it open. Close it, and run the command "
        "again"
    )
    assert os.listdir() == []


def test_embed_finishes_after_the_output_was_closed(held: list[int]) -> None:
    Path("text.txt").write_text("a b\nc\n")
    command = ("embed", "text.txt", "out.hdf5", "--model", TINY, "-q")
    held[0] = 1
    failed = elmo(*command)
    assert failed.exit_code == 1
    assert "Close the program that has it open and run the command again" in failed.stderr
    assert not Path("out.hdf5").exists()
    assert elmo(*command).exit_code == 0
    assert Path("out.hdf5").exists()


def test_another_permission_error_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(os, "replace", refuse)
    message = r"^out.txt: cannot be written: Operation not permitted$"
    with pytest.raises(OutputError, match=message), replaced("out.txt") as partial:
        partial.write_text("x")


def test_paths_of_windows_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.pretrained.find.os.sep", "\\")
    monkeypatch.setattr("elmo_cli.pretrained.find.os.altsep", "/")
    monkeypatch.setattr("elmo_cli.pretrained.find.os.path.splitdrive", ntpath.splitdrive)
    for path in ("C:\\models\\elmo", "models/elmo", "..\\elmo", "C:elmo"):
        with pytest.raises(ModelError, match="no such model folder or zip file"):
            find_model(path)
