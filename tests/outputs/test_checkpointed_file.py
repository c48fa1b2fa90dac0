"""The file under HDF5: whatever happens after a checkpoint, the checkpoint is there."""

import fcntl
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_cli.outputs.checkpoint_log import PAGE_BYTES
from elmo_cli.outputs.checkpointed_file import CheckpointedFile

Step = tuple[str, int, bytes]

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.integers(0, 3 * PAGE_BYTES), st.binary(min_size=1, max_size=9000)
        ),
        st.tuples(st.just("truncate"), st.integers(0, 3 * PAGE_BYTES), st.just(b"")),
        st.tuples(st.just("checkpoint"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


def _copy(source: Path, target: Path) -> CheckpointedFile:
    """What a process finds after this one was killed here."""
    for suffix in ("", ".log"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
    return CheckpointedFile(target)


def _content(file: CheckpointedFile) -> bytes:
    buffer = bytearray(file.seek(0, 2))
    file.seek(0)
    assert file.readinto(buffer) == len(buffer)
    return bytes(buffer)


@given(steps=steps)
@settings(max_examples=150, deadline=None)
def test_it_reads_like_a_plain_file_and_survives_at_its_last_checkpoint(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("file")
    file = CheckpointedFile(folder / "a")
    plain, kept, n_checkpoints = bytearray(), b"", 0
    for name, number, data in steps:
        if name == "write":
            file.seek(number)
            assert file.write(data) == len(data)
            plain.extend(b"\0" * (number - len(plain)))
            plain[number : number + len(data)] = data
        elif name == "truncate":
            file.truncate(number)
            del plain[number:]
            plain.extend(b"\0" * (number - len(plain)))
        else:
            n_checkpoints += 1
            file.checkpoint({"n": n_checkpoints})
            kept = bytes(plain)
        assert _content(file) == plain
        found = _copy(folder / "a", folder / "b")
        assert _content(found) == kept
        assert found.state == ({"n": n_checkpoints} if n_checkpoints else None)
        found.close()
    file.close()


def test_a_kill_between_the_steps_of_a_checkpoint_leaves_one_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CheckpointedFile(tmp_path / "a")
    file.write(b"one" * 5000)
    file.checkpoint({"n": 1})
    file.seek(0)
    file.write(b"two" * 6000)
    snapshots: list[Path] = []

    def snapshot_before(name: str) -> None:
        original = getattr(os, name)

        def step(*arguments: object) -> object:
            snapshots.append(tmp_path / str(len(snapshots)) / "a")
            snapshots[-1].parent.mkdir()
            for path in (tmp_path / "a", tmp_path / "a.log"):
                shutil.copy(path, snapshots[-1].parent / path.name)
            return original(*arguments)

        monkeypatch.setattr(f"elmo_cli.outputs.checkpointed_file.os.{name}", step)

    for name in ("fsync", "replace", "ftruncate", "pwrite"):
        snapshot_before(name)
    file.checkpoint({"n": 2})
    file.close()
    monkeypatch.undo()
    states = [_reopen(path) for path in snapshots]
    assert {n for n, _ in states} == {1, 2}
    assert all(content == {1: b"one" * 5000, 2: b"two" * 6000}[n] for n, content in states)


def _reopen(path: Path) -> tuple[int, bytes]:
    file = CheckpointedFile(path)
    assert file.state is not None
    found = file.state["n"], _content(file)
    file.close()
    return found


def test_hdf5_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a"
    sink = CheckpointedFile(path)
    with h5py.File(sink, "w") as file:
        for line in range(120):
            file.create_dataset(str(line), data=np.full((3, 2, 5), line, np.float32))
            if line % 50 == 49:
                file.flush()
                sink.checkpoint({"lines": line + 1})
        killed = _copy(path, tmp_path / "b")
    sink.close()
    assert killed.state == {"lines": 100}
    with h5py.File(killed, "r+") as file:
        assert len(file) == 100
        for line in range(100, 150):
            file.create_dataset(str(line), data=np.full((3, 2, 5), line, np.float32))
    killed.checkpoint({"lines": 150})
    killed.finish(tmp_path / "done.hdf5")
    with h5py.File(tmp_path / "done.hdf5") as file:
        assert sorted(map(int, file)) == list(range(150))
        assert all((file[str(line)][:] == line).all() for line in range(150))
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a", "a.log", "done.hdf5"]


def test_a_damaged_log_is_no_checkpoint(tmp_path: Path) -> None:
    file = CheckpointedFile(tmp_path / "a")
    file.write(b"content")
    file.checkpoint({"n": 1})
    file.close()
    log = tmp_path / "a.log"
    log.write_bytes(log.read_bytes()[:-3])
    again = CheckpointedFile(tmp_path / "a")
    assert again.state is None
    assert _content(again) == b""
    again.close()


def test_a_second_process_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = CheckpointedFile(tmp_path / "a")
    with pytest.raises(BlockingIOError):
        CheckpointedFile(tmp_path / "a")
    first.close()
    CheckpointedFile(tmp_path / "a").close()


def test_an_error_is_kept_and_nothing_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CheckpointedFile(tmp_path / "a")
    file.write(b"kept")
    file.checkpoint({"n": 1})

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmo_cli.outputs.checkpointed_file.os.pwrite", full)
    assert file.write(b" and lost") == 9  # HDF5 hears nothing of it
    monkeypatch.undo()
    file.write(b" and more")
    assert isinstance(file.error, OSError)
    with pytest.raises(OSError, match="No space left"):
        file.checkpoint({"n": 2})
    file.discard()
    again = CheckpointedFile(tmp_path / "a")
    assert (again.state, _content(again)) == ({"n": 1}, b"kept")
    again.close()


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
@pytest.mark.parametrize("takes_advice", [True, False])
def test_the_system_is_told_to_write_what_was_appended(
    takes_advice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def advise(descriptor: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED  # Linux begins to write what it is not to keep
        told.append((start, start + length))
        if not takes_advice:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr("elmo_cli.outputs.checkpointed_file.os.posix_fadvise", advise)
    monkeypatch.setattr("elmo_cli.outputs.checkpointed_file.BEGUN_BYTES", 100)
    file = CheckpointedFile(tmp_path / "a")
    for _ in range(3):
        file.write(b"x" * 60)
    file.checkpoint({})
    file.write(b"y" * 150)
    assert told == [(0, 120), (180, 330)]
    assert file.error is None
    assert _content(file) == b"x" * 180 + b"y" * 150
    file.close()


def test_discard_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    file = CheckpointedFile(tmp_path / "a")
    file.write(b"content")
    file.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends", ["finish", "discard"])
def test_a_file_that_another_process_ends_before_the_lock_is_there_is_left_alone(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that opens the partial file while the first one still has it."""
    first = CheckpointedFile(tmp_path / "out.partial")
    first.write(b"values")
    calls: list[int] = []
    lock = fcntl.flock

    def late_lock(descriptor: int, operation: int) -> None:
        if not calls:
            if ends == "finish":
                first.checkpoint({})
                first.finish(tmp_path / "out")
            else:
                first.discard()
        calls.append(descriptor)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late_lock)
    second = CheckpointedFile(tmp_path / "out.partial")
    if ends == "finish":
        assert (tmp_path / "out").read_bytes() == b"values"
    second.write(b"others")
    second.checkpoint({})
    second.finish(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"others"
