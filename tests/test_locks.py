"""Reading of HDF5 files where the file system has no locks, or another program holds one."""

import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import pytest
from conftest import GOLDEN
from layouts import lines, write

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError, WeightsError
from elmo_cli.model.weights import open_tensors

fcntl = pytest.importorskip("fcntl")

REMEDY = "set the environment variable HDF5_USE_FILE_LOCKING to FALSE"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "out.hdf5"
    write(lines("a", "b"), path, "allennlp")
    return path


class Lockless(h5py.File):  # type: ignore[misc] # h5py has no types
    """File on a file system without locks, where HDF5 opens files only with `locking=False`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        if settings.get("locking") is not False:
            reason = f"Unable to open file (unable to lock file, errno = {errno.ENOLCK})"
            raise OSError(errno.ENOLCK, reason)
        super().__init__(*args, **settings)


def test_files_are_read_where_there_are_no_locks(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(h5py, "File", Lockless)
    with open_activations(output) as activations:
        assert len(activations) == 2
    assert ElmoEmbedder(model=str(GOLDEN / "relu")).embed_sentence(["a"]).shape == (3, 1, 32)


def test_error_of_a_locked_file_names_the_remedy(output: Path) -> None:
    with output.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=REMEDY) as caught:
            open_activations(output)
        with pytest.raises(WeightsError, match=REMEDY), open_tensors(output):
            pass
    reason = os.strerror(errno.EAGAIN)
    assert str(caught.value) == (
        f"{output}: cannot be read: HDF5 cannot lock it ({reason}). Close the program that "
        f"writes it, or {REMEDY}."
    )


def test_writing_without_locks_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks")))
    write(lines("a"), tmp_path / "out.hdf5", "allennlp")
    assert "the file system has no locks. Let only one process write there." in caplog.text
