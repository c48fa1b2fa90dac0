"""The file under HDF5: whatever happens after a checkpoint, the checkpoint is there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_cli.errors import OutputError
from elmo_cli.outputs.resumable_file import PAGE_BYTES, ResumableFile

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


def _copy(source: Path, target: Path) -> ResumableFile:
    """Return what a process finds after this one was killed here."""
    for suffix in (".partial", ".partial.log"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
    return ResumableFile(target)


def _content(file: ResumableFile) -> bytes:
    buffer = bytearray(file.seek(0, 2))
    file.seek(0)
    assert file.readinto(buffer) == len(buffer)
    return bytes(buffer)


@given(steps=steps)
@settings(max_examples=50, deadline=None)
def test_a_kill_leaves_the_last_checkpoint_of_a_file(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("file")
    file = ResumableFile(folder / "a")
    plain, saved, n_checkpoints = bytearray(), b"", 0
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
            saved = bytes(plain)
        assert _content(file) == plain
        resumed = _copy(folder / "a", folder / "b")
        assert _content(resumed) == saved
        assert resumed.state == ({"n": n_checkpoints} if n_checkpoints else None)
        resumed.close()
    file.close()


def test_a_kill_in_a_checkpoint_leaves_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ResumableFile(tmp_path / "a")
    file.write(b"one" * 5000)
    file.checkpoint({"n": 1})
    file.seek(0)
    file.write(b"two" * 6000)
    snapshots: list[Path] = []

    def snapshot_before(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def step(*arguments: object) -> object:
            snapshots.append(tmp_path / str(len(snapshots)) / "a")
            snapshots[-1].parent.mkdir()
            for path in (tmp_path / "a.partial", tmp_path / "a.partial.log"):
                shutil.copy(path, snapshots[-1].parent / path.name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, step)

    for name in ("fsync", "replace", "ftruncate"):
        snapshot_before(os, name)
    snapshot_before(ResumableFile, "_write_at")
    file.checkpoint({"n": 2})
    file.close()
    monkeypatch.undo()
    states = [_reopen(path) for path in snapshots]
    assert {n for n, _ in states} == {1, 2}
    assert all(content == {1: b"one" * 5000, 2: b"two" * 6000}[n] for n, content in states)


def _reopen(path: Path) -> tuple[int, bytes]:
    file = ResumableFile(path)
    assert file.state is not None
    state_and_content = file.state["n"], _content(file)
    file.close()
    return state_and_content


def _foreign_log(folder: Path) -> None:
    file = ResumableFile(folder / "a")
    file.write(b"content")
    file.checkpoint({"n": 1})
    file.close()
    log = folder / "a.partial.log"
    log.write_bytes(log.read_bytes()[:-3])


def _foreign_file(folder: Path) -> None:
    (folder / "a.partial").write_bytes(b"of the user's own")


def _planted_link(folder: Path) -> None:
    (folder / "elsewhere").write_bytes(b"of another user")
    ResumableFile(folder / "a").close()
    (folder / "a.partial").unlink()
    (folder / "a.partial").symlink_to(folder / "elsewhere")


@pytest.mark.parametrize("plant", [_foreign_log, _foreign_file, _planted_link])
def test_a_file_of_another_program_is_not_resumed(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    plant(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError, match=r": not an? "):
        ResumableFile(tmp_path / "a")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_log_without_a_file_belongs_to_a_finished_run(tmp_path: Path) -> None:
    file = ResumableFile(tmp_path / "a")
    file.write(b"content")
    file.checkpoint({"n": 1})
    file.close()
    os.replace(tmp_path / "a.partial", tmp_path / "a")
    again = ResumableFile(tmp_path / "a")
    assert again.state is None
    assert _content(again) == b""
    again.close()


def test_an_error_is_kept_and_nothing_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ResumableFile(tmp_path / "a")
    file.write(b"kept")
    file.checkpoint({"n": 1})

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ResumableFile, "_write_at", full)
    assert file.write(b" and lost" * 1000) == 9000  # HDF5 hears nothing of it
    monkeypatch.undo()
    file.write(b" and more")
    assert isinstance(file.error, OSError)
    with pytest.raises(OSError, match="No space left"):
        file.checkpoint({"n": 2})
    file.discard()
    again = ResumableFile(tmp_path / "a")
    assert (again.state, _content(again)) == ({"n": 1}, b"kept")
    again.close()


def test_discard_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    file = ResumableFile(tmp_path / "a")
    file.write(b"content")
    file.discard()
    assert list(tmp_path.iterdir()) == []
