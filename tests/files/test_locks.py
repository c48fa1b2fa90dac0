"""Locks of files."""

import os
from pathlib import Path

import pytest

from elmo_cli.files.locks import NO_LOCKS, lock, unlock


def test_a_file_that_another_lock_holds_is_locked(tmp_path: Path) -> None:
    held = lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError, match="another process has locked it"):
        lock(tmp_path / "lock")
    unlock(held)


@pytest.mark.parametrize("number", NO_LOCKS)
def test_a_file_system_without_locks_leaves_no_lock(
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    held = lock(tmp_path / "lock")
    if held is None:
        assert "the file system has no locks" in caplog.text
    unlock(held)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_where_no_file_can_be_made_the_error_is_that_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        lock(Path("/proc/x.lock"))
