"""Runs in which the system refuses a call, all later calls too, or ends before one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.errors.exceptions import OutputError
from tests.support.failing_disk import Disk, kills, restore
from tests.support.runs import assert_same_file
from tests.support.short_runs import LINES, OUTPUTS, noted_checkpoints, run


@contextmanager
def used(disk: Disk) -> Iterator[list[int]]:
    """Use a disk in a block, and yield the numbers of records in its checkpoints."""
    kept = [0]
    with noted_checkpoints(kept.append), disk.used():
        yield kept


@pytest.fixture
def text(folder: Path) -> Path:
    """Write a short text into the empty current folder."""
    Path("input.txt").write_text(LINES)
    return Path("input.txt")


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_run_resumes_after_any_call_that_failed(text: Path, name: str) -> None:
    counting = Disk()
    whole = Path(name)
    with used(counting):
        run(text, whole)
    assert counting.n_calls > 10
    for number in range(1, counting.n_calls + 1):
        output = Path(str(number), name)
        output.parent.mkdir()
        with used(Disk([number])) as kept, suppress(OutputError):
            run(text, output)
        if not output.exists():
            summary = run(text, output)
            assert summary.was_complete or summary.resumed_from >= kept[-1]
        assert_same_file(output, whole)


@pytest.mark.parametrize("name", ["allennlp.hdf5", "pooled.npy", "rows.parquet"])
def test_overwriting_survives_a_disk_that_fails(text: Path, name: str) -> None:
    counting = Disk()
    output = Path(name)
    run(text, output)
    old = output.read_bytes()
    text.write_text(f"Another line\n{LINES}")
    with used(counting):
        run(text, output, overwrite=True)
    whole = output.read_bytes()
    for number in range(1, counting.n_calls + 1, 4):
        for end in (number + 1, sys.maxsize):  # One call fails, or all from then on.
            output.write_bytes(old)
            with used(Disk(range(number, end))), suppress(OutputError):
                run(text, output, overwrite=True)
            assert output.read_bytes() in (old, whole)
            run(text, output, overwrite=True)
            assert output.read_bytes() == whole


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_run_killed_before_any_call_resumes(text: Path, name: str) -> None:
    output = Path("out", name)
    output.parent.mkdir()
    with kills(output.parent) as states:
        run(text, output)
    assert len(states) > 3
    whole = {path.name for path in output.parent.iterdir()}
    for index, state in enumerate(states):
        folder = Path(str(index))
        restore(state, folder)
        # The same command also removes the log of a complete output, which other
        # formats refuse.
        with suppress(OutputError) if (folder / name).exists() else nullcontext():
            run(text, folder / name)
        assert {path.name for path in folder.iterdir()} == whole
        assert_same_file(folder / name, output)


def test_ids_never_lie_next_to_the_vectors_of_others(text: Path) -> None:
    source, output, ids = map(Path, ("in.csv", "pooled.npy", "pooled.npy.ids.txt"))
    kept = set[str]()

    def run_with(*names: str) -> None:
        source.write_text(
            "\n".join(["id,text", *(f"{name},the bank" for name in names)])
        )
        run(source, output, overwrite=True)

    counting = Disk()
    with counting.used():
        run_with("old")
    for number in range(1, counting.n_calls + 2):
        run_with("old")
        with Disk([number]).used(), suppress(OutputError):
            run_with("a", "b")
        n_rows = len(np.load(output))
        if ids.exists():
            kept.add(ids.read_text())
            assert ids.read_text() == ("old\n" if n_rows == 1 else "a\nb\n")
    assert len(kept) == 2
    output.unlink()
    message = (
        r"pooled\.npy\.ids\.txt: already exists\. Use overwrite=True to replace it\.$"
    )
    with pytest.raises(OutputError, match=message):
        run(source, output)
