"""Locks of files."""

from pathlib import Path

import pytest

from elmo_cli.files.locks import lock, unlock


def test_a_file_that_another_lock_holds_is_locked(tmp_path: Path) -> None:
    held = lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError, match="another process has locked it"):
        lock(tmp_path / "lock")
    unlock(held)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_where_no_file_can_be_made_the_error_is_that_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        lock(Path("/proc/x.lock"))
