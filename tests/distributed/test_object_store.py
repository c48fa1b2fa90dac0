"""Runs on a store without renames, links and locks, as object stores are."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import distributed_runs
import pytest
from commands import TINY, elmo
from distributed_runs import WARM, ZERO
from numpy.testing import assert_allclose
from pyarrow.fs import FSSpecHandler, PyFileSystem

from elmo_cli import open_activations
from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.plan import open_plan
from elmo_cli.errors import OutputError
from elmo_cli.outputs import parts as module
from elmo_cli.outputs.parts import Folder

OUT = "memory://bucket/out"
distribute = partial(distributed_runs.distribute, location=OUT)


@pytest.fixture(autouse=True)
def store(corpus_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make an empty store in memory."""
    memory = pytest.importorskip("fsspec.implementations.memory")
    open_other, filesystem = module.open_location, memory.MemoryFileSystem()

    def open_location(location: str) -> tuple[Any, str]:
        if location.startswith("memory://"):
            return PyFileSystem(FSSpecHandler(filesystem)), location.removeprefix("memory:/")
        return open_other(location)

    monkeypatch.setattr(module, "open_location", open_location)
    yield
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def assert_has(state: str) -> None:
    """Assert that the folder has what `elmo embed` gives."""
    command = ("embed", "text.txt", "plain.hdf5", "--model", TINY, "--state", state)
    assert elmo(*command).exit_code == 0
    with open_activations(OUT) as activations, open_activations("plain.hdf5") as plain:
        assert activations.attributes["state"] == state
        for values, expected in zip(activations, plain, strict=True):
            assert_allclose(values, expected, atol=2e-6)


def test_a_run_on_a_store_resumes_and_completes() -> None:
    def stop(part: Part) -> None:
        if part.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distribute(ZERO, stop)
    done: list[int] = []
    distribute(ZERO, lambda part: done.append(part.number))
    assert done == [4, 5, 6, 7, 8, 9]
    assert_has("zero")
    with pytest.raises(OutputError, match=r"These differ: --state \(zero, not warm\)"):
        distribute(WARM)
    assert "_SUCCESS" in Folder(OUT).names()
    assert Folder(f"{OUT}/_elmo").names() == ["plan.parquet"]


def test_equal_runs_on_a_store_both_end_well() -> None:
    distribute(ZERO, lambda part: distribute(ZERO) if part.number == 3 else None)
    assert_has("zero")


def test_of_two_plans_on_a_store_the_last_one_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_another(part: Part) -> None:
        if part.number == 3:
            # The other run has looked for a plan before this run created its own.
            with monkeypatch.context() as patch:
                patch.setattr("elmo_cli.distributed.plan.read_plan", lambda folder: None)
                patch.setattr(Folder, "has", lambda self, name: False)
                patch.setattr(Folder, "names", lambda self, name="": [])
                open_plan(Folder(OUT), ("text.txt",), WARM, part_mb=0.002)

    with pytest.raises(OutputError, match="the plan of this run is missing"):
        distribute(ZERO, create_another)
    distribute(WARM)
    assert_has("warm")
