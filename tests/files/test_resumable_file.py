"""The file under HDF5: whatever happens after a checkpoint, the checkpoint is there."""

import itertools
import random
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_cli.errors.exceptions import OutputError, StoppedError
from elmo_cli.errors.messages import spelled_as_options
from elmo_cli.files.resumable.checkpoint_log import remove_leftovers
from elmo_cli.files.resumable.pages import PAGE_BYTES
from elmo_cli.files.resumable.resumable_file import ResumableFile
from elmo_cli.outputs.saved_output import ResumePoint
from elmo_cli.records.progress import Progress
from tests.support.failing_disk import restore, state_of
from tests.support.layouts import lines, open_writer, write

EARLIER = Path(__file__).parent / "earlier_partial"
NUMBERS = st.integers(0, 3 * PAGE_BYTES)
STEPS = st.one_of(
    st.tuples(st.just("write"), NUMBERS, st.binary(min_size=1, max_size=9000)),
    st.tuples(st.just("truncate"), NUMBERS, st.just(b"")),
    st.just(("checkpoint", 0, b"")),
)


def content_of(resumable: ResumableFile) -> bytes:
    file = resumable.file
    buffer = bytearray(file.seek(0, 2))
    file.seek(0)
    assert file.readinto(buffer) == len(buffer)
    return bytes(buffer)


@given(steps=st.lists(STEPS, max_size=12))
@settings(max_examples=50)
def test_a_kill_leaves_the_last_checkpoint_of_a_file(
    steps: Any, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("file")
    resumable = ResumableFile(folder / "a")
    file = resumable.file
    plain = bytearray()
    saved = b""
    n_checkpoints = 0
    for step, (name, number, data) in enumerate(steps):
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
            resumable.commit({"n": n_checkpoints})
            saved = bytes(plain)
        assert content_of(resumable) == plain
        killed = folder.with_name(f"{folder.name}-killed-{step}")
        restore(state_of(folder), killed)
        with closing(ResumableFile(killed / "a")) as resumed:
            assert content_of(resumed) == saved
            assert resumed.state == ({"n": n_checkpoints} if n_checkpoints else None)
    resumable.close()


@pytest.fixture
def saved(folder: Path) -> Path:
    """Make a checkpoint of a file, and return the file's final name."""
    with closing(ResumableFile(Path("a"))) as resumable:
        resumable.file.write(b"content" * 20 * PAGE_BYTES)
        resumable.commit({"n": 1})
    return Path("a")


def test_a_long_check_can_be_stopped(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.files.resumable.paged_file.CHECKED_BYTES", PAGE_BYTES)
    with pytest.raises(StoppedError, match=r"a\.partial was checked"):
        ResumableFile(saved, should_stop=lambda: True)
    with closing(ResumableFile(saved)) as again:
        assert again.state == {"n": 1}


def test_a_file_killed_before_its_name_changes_is_only_renamed(saved: Path) -> None:
    resumable = ResumableFile(saved)
    before = content_of(resumable)
    with patch.object(resumable, "publish"):
        resumable.finish({"n": 2})
    resumable.close()
    again = ResumableFile(saved)
    assert again.is_finished
    assert again.state == {"n": 2, "finished": True}
    assert content_of(again) == before
    again.publish()
    assert saved.read_bytes() == before
    assert [path.name for path in Path().iterdir()] == ["a"]


def test_a_log_without_its_file_starts_over(saved: Path) -> None:
    Path("a.partial").rename(saved)  # as at the end of a run
    with closing(ResumableFile(saved)) as again:
        assert again.state is None
        assert content_of(again) == b""


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["cut log", "log alone", "symlink_to", "hardlink_to"])
def test_files_of_another_program_are_an_error_and_kept(
    kind: str, overwrite: bool, saved: Path
) -> None:
    partial = Path("a.partial")
    log = Path("a.partial.log")
    if kind == "cut log":
        log.write_bytes(log.read_bytes()[:-3])
    elif kind == "log alone":
        partial.unlink()
        log.write_bytes(b"of the user's own")
    else:
        Path("elsewhere").write_bytes(b"of the user's own")
        partial.unlink()
        getattr(partial, kind)("elsewhere")
    if kind == "hardlink_to":
        log.unlink()
    before = state_of(Path())
    with pytest.raises(OutputError, match=r": not an? "):
        ResumableFile(saved, overwrite=overwrite)
    assert state_of(Path()) == before


def test_a_foreign_file_with_the_name_of_a_log_is_kept(folder: Path) -> None:
    log = folder / "a.partial.log"
    log.write_text("of another program")
    remove_leftovers(folder / "a")
    assert log.exists()


def test_a_file_of_an_earlier_version_resumes_by_its_own_checksum(
    folder: Path,
) -> None:
    # `elmo embed` wrote these files on 2026-11-29, with another checksum in the log.
    shutil.copytree(EARLIER, folder, dirs_exist_ok=True)
    partial = folder / "vectors.hdf5.partial"
    content = partial.read_bytes()
    for bit in (0, 7):
        damaged = bytearray(content)
        damaged[2 * PAGE_BYTES] ^= 1 << bit
        partial.write_bytes(damaged)
        with pytest.raises(OutputError, match="its bytes have changed"):
            ResumableFile(folder / "vectors.hdf5")

    partial.write_bytes(content)
    with closing(ResumableFile(folder / "vectors.hdf5")) as resumed:
        assert resumed.state is not None
        assert resumed.state["n_records"] == 18
        assert content_of(resumed) == content
        resumed.file.write(b"more")
        resumed.commit(resumed.state | {"n_records": 19})
    with closing(ResumableFile(folder / "vectors.hdf5")) as again:
        assert again.state == resumed.state
        assert content_of(again) == content + b"more"


KINDS = ("flip", "clear", "move", "cut", "empty")


def damage(path: Path, kind: str, choose: random.Random) -> None:
    """Flip some bits of a file, clear a page, move a page, cut the file or empty it."""
    content = bytearray(path.read_bytes())
    page = choose.randrange(0, len(content), PAGE_BYTES)
    if kind == "flip":
        for _ in range(choose.randint(1, 3)):
            content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    elif kind == "clear":
        content[page : page + PAGE_BYTES] = bytes(
            len(content[page : page + PAGE_BYTES])
        )
    elif kind == "move":
        content[page:] = content[:PAGE_BYTES] + content[page + PAGE_BYTES :]
    else:
        del content[0 if kind == "empty" else choose.randrange(len(content)) :]
    path.write_bytes(content)


def test_changed_bytes_are_an_error_until_overwritten(tmp_path: Path) -> None:
    corpus = lines(*map(str, range(300)))
    with open_writer(tmp_path / "a", layout="packed") as writer:
        for record, values in zip(*corpus[:2], strict=True):
            writer.write(record, values)
        writer.checkpoint(ResumePoint(Progress(300, "")))
    files = {path: path.read_bytes() for path in sorted(tmp_path.glob("a.partial*"))}
    messages = []
    for index, (path, kind) in enumerate(itertools.product(files, [*KINDS] * 5)):
        for each, content in files.items():
            each.write_bytes(content)
        damage(path, kind, random.Random(index))
        try:
            ResumableFile(tmp_path / "a").close()
            # The log has repaired the page, or the page was zero before.
            assert all(each.read_bytes() == content for each, content in files.items())
        except OutputError as error:
            messages.append(spelled_as_options(error))
    assert len(messages) > 25
    remedies = "Use --overwrite to start over|Move it away, or choose another output"
    assert all(re.fullmatch(f".+({remedies})\\.", each) for each in messages)
    for path, content in files.items():
        path.write_bytes(content)
    damage(tmp_path / "a.partial", "flip", random.Random(0))
    write(corpus, tmp_path / "a", "packed", overwrite=True)
    write(corpus, tmp_path / "whole", "packed")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "whole").read_bytes()
