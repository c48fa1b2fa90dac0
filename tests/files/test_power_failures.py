"""Power failures at any moment lose nothing that was safe, thanks to every sync."""

import random
import shutil
from collections.abc import Iterable
from inspect import isfunction
from pathlib import Path

import pytest

from elmo_cli.files import disk
from tests.support.power_failure import CHANGING, SYNCING, Failure, sync_calls
from tests.support.power_jobs import JOBS, Recording, record, write_sources

SYNC_CALLS = sync_calls()


@pytest.fixture(autouse=True)
def sources(folder: Path) -> None:
    """Write what the work reads into the empty current folder."""
    write_sources()


def first_problem(recording: Recording, failures: Iterable[Failure]) -> str | None:
    """Return the first problem after power failures, or None."""
    for failure in failures:
        folder = Path("after-failure")
        shutil.rmtree(folder, ignore_errors=True)
        problem = recording.problem_after(failure, folder)
        if problem is not None:
            names = ", ".join(map(str, failure.state))
            return f"before {failure.call}, with {names}: {problem}"
    return None


def test_the_simulation_watches_all_functions_that_change_files() -> None:
    functions = {
        name
        for name, value in vars(disk).items()
        if isfunction(value) and value.__module__ == disk.__name__
    }
    readers = {"identity", "identity_at"}
    assert functions - readers == {*CHANGING, *SYNCING}


@pytest.mark.parametrize("name", JOBS)
def test_a_power_failure_loses_nothing(name: str) -> None:
    recording = record(JOBS[name], Path("job"), n_mixtures=2)
    failures = recording.disk.failures
    n_chosen = 3 if name == "training" else 12
    chosen = random.Random(name).sample(failures, min(n_chosen, len(failures)))
    assert first_problem(recording, chosen) is None


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_no_power_failure_loses_anything(name: str) -> None:
    recording = record(JOBS[name], Path("job"), n_mixtures=100)
    failures = recording.disk.failures
    print(f"{len(failures)} failures")  # noqa: T201
    assert first_problem(recording, failures) is None


@pytest.mark.parametrize("call", SYNC_CALLS)
def test_without_a_sync_a_power_failure_loses_something(call: str) -> None:
    place = SYNC_CALLS[call]
    for number, job in enumerate(JOBS.values()):
        folder = Path(f"job-{number}")
        recording = record(job, folder, n_mixtures=2, without=place)
        failures = recording.disk.failures
        random.Random(0).shuffle(failures)
        if place in recording.disk.reached and first_problem(recording, failures):
            return
    pytest.fail("the sync is needless, or no work tests it")
