"""SHA-256 of a model, which a thread computes while the process does other work."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.pretrained import checksums
from elmo_cli.pretrained.checksums import content_sha256, start_content_sha256
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.model_folder import read_folder
from tests.support.commands import TINY, elmo


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """Return the files of a copy of a model, which no other test has hashed."""
    return read_folder(shutil.copytree(TINY, tmp_path / "model"), "model")


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Return the threads that have hashed a file so far."""
    threads = []
    compute = checksums.sha256

    def sha256(path: Path) -> str:
        threads.append(threading.current_thread())
        return compute(path)

    monkeypatch.setattr(checksums, "sha256", sha256)
    return threads


def test_a_model_is_hashed_once_in_a_thread(
    files: ModelFiles, readers: list[threading.Thread]
) -> None:
    start_content_sha256(files)
    start_content_sha256(files)
    expected = hashlib.sha256(files.weights.read_bytes()).hexdigest()
    assert content_sha256(files) == expected
    assert content_sha256(read_folder(files.weights.parent, "again")) == expected
    assert len(readers) == 1
    assert readers[0] is not threading.main_thread()


def test_changed_weights_are_hashed_again(files: ModelFiles) -> None:
    start_content_sha256(files)
    before = content_sha256(files)
    weights = files.weights.read_bytes()
    status = files.weights.stat()
    changed = files.weights.with_name("changed")
    changed.write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed.replace(files.weights)
    assert content_sha256(files) != before


def test_an_error_of_the_thread_is_raised_where_the_hash_is_needed(
    files: ModelFiles, readers: list[threading.Thread]
) -> None:
    files.weights.unlink()
    start_content_sha256(files)
    files.weights.mkdir()  # A folder cannot be read.
    start_content_sha256(files)
    with pytest.raises(IsADirectoryError, match=r"weights\.hdf5"):
        content_sha256(files)
    assert len(readers) == 2  # The caller has tried too.


def test_a_large_file_is_hashed_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_PIECE_BYTES", 7)
    path = tmp_path / "text"
    for content in (b"", b"1234567", b"the cat sat on the mat"):
        path.write_bytes(content)
        assert checksums.sha256(path) == hashlib.sha256(content).hexdigest()


def test_a_command_that_records_the_hash_starts_it_before_it_loads_the_model(
    files: ModelFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    monkeypatch.setattr(
        checksums, "start_content_sha256", lambda files: events.append("hash")
    )

    def load_bilm(files: ModelFiles) -> None:
        events.append("load")
        raise ModelError("loading ends here")

    monkeypatch.setattr("elmo_cli.engine.load_bilm", load_bilm)
    (folder / "text.txt").write_text("the cat sat\n")
    elmo("embed", "text.txt", "out.hdf5", "--model", files.weights.parent)
    assert events == ["hash", "load"]
    elmo("cosine", "cat", "the cat", "a cat", "--model", files.weights.parent)
    assert events == ["hash", "load", "load"]


def test_a_process_that_fails_does_not_wait_for_the_hash() -> None:
    code = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from elmo_cli.pretrained import checksums\n"
        "from elmo_cli.pretrained.model_folder import read_folder\n"
        "checksums.sha256 = lambda path: threading.Event().wait()\n"  # forever
        f"files = read_folder(Path({str(TINY)!r}), 'tiny')\n"
        "checksums.start_content_sha256(files)\n"
        "sys.exit(3)\n"
    )
    # Without the fork server, which would end the process in its own way.
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 3
