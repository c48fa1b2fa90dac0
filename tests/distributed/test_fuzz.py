"""Two and more runs on one folder at random moments, with and without kills.

Each trial leaves the parts of one plan, or a refusal that names the folder.
"""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, elmo
from numpy.typing import NDArray
from pyarrow import parquet
from trials import trials

from elmo_cli import open_activations
from elmo_cli.distributed.plan import read_plan
from elmo_cli.errors import InputError
from elmo_cli.outputs.parts import Folder

pytestmark = pytest.mark.long
N_LINES = 60
KINDS = ("other at start", "other at work", "equal", "job array")
STATES = {"one": "zero", "other": "warm"}
"""Runs of a trial, which have other plans and other values."""

Expected = dict[str, list[NDArray[Any]]]
Planned = tuple[float, str, list[str]]
"""Seconds before the start of a run, its name, and its arguments."""

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def run_elmo(arguments: list[str], errors: str) -> None:
    """Run `elmo` in a forked process; standard error goes to a file."""
    from elmo_cli.cli import main

    descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    main(arguments, prog_name="elmo")


@dataclass
class Run:
    """A process of a trial."""

    name: str
    process: BaseProcess
    errors: Path
    is_killed: bool = False

    def said(self) -> str:
        return self.errors.read_text() if self.errors.exists() else ""


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    """Write a text into the empty current folder."""
    lines = (f"The cat {i} sat\n" * (i % 3) + "\n" for i in range(N_LINES))
    Path("text.txt").write_text("".join(lines))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a cluster of Ray on this machine."""
    command = [sys.executable, "-c", CLUSTER]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        command,
        text=True,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def command_of(name: str, engine: list[str], *options: str) -> list[str]:
    """Return the arguments of a run: each name is another plan."""
    model = ["--model", str(TINY), "--state", STATES[name], "--layers", "top"]
    return ["distribute", "text.txt", "out", "--part-size", "0.001", *model, *engine, *options]


@pytest.fixture
def expected() -> Expected:
    """Return the activations of each plan, by `elmo embed`."""
    values = {}
    for name, state in STATES.items():
        options = ("--state", state, "--layers", "top", "--overwrite")
        assert elmo("embed", "text.txt", "plain.hdf5", "--model", TINY, *options).exit_code == 0
        with open_activations("plain.hdf5") as activations:
            values[name] = list(activations)
    return values


def plan_of_folder(expected: Expected) -> str | None:
    """Return the name of the plan whose values the folder has, all of them; None if refused."""
    try:
        with open_activations("out") as activations:
            values = list(activations)
    except InputError as error:
        if "/out: " in str(error):
            return None
        raise
    plan = read_plan(Folder("out"))
    assert plan is not None
    name = next(name for name in STATES if STATES[name] == plan.settings["state"])
    assert len(values) == len(expected[name])
    for one, other in zip(values, expected[name], strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    hashes = {
        json.loads(parquet.read_metadata(path).metadata[b"elmo"])["plan_sha256"]
        for path in Path("out").glob("part-*")
    }
    assert hashes <= {plan.sha256}
    return name


def runs_of(kind: str, engine: list[str], seconds: float, chance: random.Random) -> list[Planned]:
    """Return the runs of a trial."""
    if kind == "job array":
        runs = []
        for number in (1, 2, 3):
            # Ray has no shards, so that the tasks do the same parts.
            shard = [] if "ray" in engine else ["--shard", f"{number}/3"]
            runs.append((chance.uniform(0, seconds), "one", command_of("one", engine, *shard)))
        return runs
    starts = {"other at start": (0, 0.3), "other at work": (0.3, 1.3), "equal": (0, 1)}
    delay = seconds * chance.uniform(*starts[kind])
    other = "one" if kind == "equal" else "other"
    return [(0.0, "one", command_of("one", engine)), (delay, other, command_of(other, engine))]


def start_runs(
    forks: Any, planned: list[Planned], kill_at: float | None, chance: random.Random
) -> list[Run]:
    """Start runs at their moments, and kill one of them with SIGKILL; wait for all."""
    runs: list[Run] = []
    began = time.monotonic()
    waiting = sorted(planned, key=lambda each: each[0])
    while waiting or any(run.process.is_alive() for run in runs):
        now = time.monotonic() - began
        if waiting and now >= waiting[0][0]:
            _, name, arguments = waiting.pop(0)
            errors = Path(f"errors-{len(runs)}.txt").resolve()
            process = forks.Process(target=run_elmo, args=(arguments, str(errors)))
            process.start()
            runs.append(Run(name, process, errors))
        if kill_at is not None and now >= kill_at and runs:
            victim = chance.choice(runs)
            victim.process.kill()
            victim.is_killed, kill_at = True, None
        assert now < 300
        time.sleep(0.001)
    return runs


def check_end(run: Run) -> None:
    """Assert that a run ended well, was killed, or was refused by name."""
    said = run.said()
    assert "Traceback" not in said, said
    if not run.is_killed:
        assert run.process.exitcode in (0, 1), said
    if run.process.exitcode == 1:
        last = said.splitlines()[-1]
        assert last.startswith("Error: "), said
        assert "/out" in last, said


def try_once(
    forks: Any,
    kind: str,
    engine: list[str],
    seconds: float,
    chance: random.Random,
    expected: Expected,
) -> str:
    """Do one trial, and return how it ended."""
    none = ["--engine", "none"]
    planned = runs_of(kind, engine, seconds, chance)
    kill_at = chance.uniform(0, 1.5 * seconds) if chance.random() < 0.3 else None
    runs = start_runs(forks, planned, kill_at, chance)
    statuses = [run.process.exitcode for run in runs]
    for run in runs:
        check_end(run)
    plan_name = plan_of_folder(expected)
    is_killed = any(run.is_killed for run in runs)
    if not is_killed:
        assert plan_name in {run.name for run in runs if run.process.exitcode == 0}
        assert len({run.name for run in runs}) == 2 or {*statuses} == {0}
    plan = read_plan(Folder("out"))
    name = "other" if plan is not None and plan.settings["state"] == "warm" else "one"
    last = elmo(*command_of(name, none))
    assert last.exit_code == 0, last.output
    assert plan_of_folder(expected) == name
    assert os.listdir("out/_elmo") == ["plan.parquet"]
    if is_killed:
        return f"killed, then {plan_name or 'refused'}"
    return f"{plan_name}; {statuses.count(0)} of {len(statuses)} ended well"


@contextmanager
def new_folder(name: str) -> Iterator[None]:
    """Work in a new folder with the text."""
    before = Path.cwd()
    Path(name).mkdir()
    shutil.copy("text.txt", name)
    os.chdir(name)
    try:
        yield
    finally:
        os.chdir(before)


def time_of_a_run(forks: Any, engine: list[str], name: str) -> float:
    """Return the seconds of a run that is alone."""
    with new_folder(name):
        started = time.monotonic()
        planned = [(0.0, "one", command_of("one", engine))]
        [run] = start_runs(forks, planned, None, random.Random(0))
        assert run.process.exitcode == 0, run.said()
        return time.monotonic() - started


def try_often(forks: Any, kind: str, engine: list[str], expected: Expected) -> None:
    """Do trials of a kind, and print how often each end was seen."""
    name = f"{kind}, {'Ray' if 'ray' in engine else 'no engine'}"
    seconds = min(time_of_a_run(forks, engine, f"alone-{i}") for i in range(2))
    counts: dict[str, int] = {}
    for number, chance in enumerate(trials(name)):
        with new_folder(f"trial-{number}"):
            end = try_once(forks, kind, engine, seconds, chance, expected)
        counts[end] = counts.get(end, 0) + 1
    print(f"{name}, {seconds:.1f} s a run: {counts}")  # noqa: T201


@pytest.mark.parametrize("kind", KINDS)
def test_runs_at_random_moments_do_not_mix(forks: Any, kind: str, expected: Expected) -> None:
    try_often(forks, kind, ["--engine", "none"], expected)


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='needs Ray; pip install "elmo-cli[ray]"'
)
@pytest.mark.parametrize("kind", KINDS)
def test_ray_runs_at_random_moments_do_not_mix(
    forks: Any, kind: str, address: str, expected: Expected
) -> None:
    engine = ["--engine", "ray", "--address", address, "--workers", "1"]
    try_often(forks, kind, engine, expected)
