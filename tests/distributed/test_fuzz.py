"""Two and more runs on one folder at random moments, with and without kills.

Each trial leaves the parts of one plan, or a refusal that names the folder.
"""

import importlib.util
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
KINDS = {
    "other at start": (0, 0.3),
    "other at work": (0.3, 1.3),
    "equal": (0, 1),
    "job array": (0, 1),
}
"""Trials, and when the later runs start, in units of the time of a run."""
STATES = {"one": "zero", "other": "warm"}
"""Runs of a trial, which have other plans and other values."""

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

    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    main(arguments, prog_name="elmo")


def command_of(name: str, *options: str) -> list[str]:
    """Return the arguments of a run: each name is another plan."""
    model = ["--model", str(TINY), "--state", STATES[name], "--layers", "top"]
    return ["distribute", "../text.txt", "out", "--part-size", "0.001", *model, *options]


@dataclass
class Run:
    """A run of a trial, and the second at which it starts."""

    delay: float
    name: str
    options: tuple[str, ...]
    process: Any = None

    def start(self, forks: Any, number: int) -> None:
        self.errors = Path(f"errors-{number}.txt").resolve()
        arguments = command_of(self.name, *self.options)
        self.process = forks.Process(target=run_elmo, args=(arguments, str(self.errors)))
        self.process.start()

    def check_end(self) -> None:
        """Assert that the run ended well, was killed, or was refused by name."""
        said = self.errors.read_text() if self.errors.exists() else ""
        assert "Traceback" not in said, said
        assert self.process.exitcode in (0, 1, -signal.SIGKILL), said
        if self.process.exitcode == 1:
            last = said.splitlines()[-1]
            assert last.startswith("Error: "), said
            assert "/out" in last, said


def do(forks: Any, runs: list[Run], kill_at: float, chance: random.Random) -> float:
    """Start runs at their moments, kill one of them, wait for all, and return the seconds."""
    began, waiting = time.monotonic(), sorted(runs, key=lambda run: run.delay)
    started: list[Run] = []
    while waiting or any(run.process.is_alive() for run in started):
        now = time.monotonic() - began
        if waiting and now >= waiting[0].delay:
            started.append(waiting.pop(0))
            started[-1].start(forks, len(started))
        if now >= kill_at and started:
            chance.choice(started).process.kill()
            kill_at = math.inf
        assert now < 300
        time.sleep(0.001)
    for run in runs:
        run.check_end()
    return time.monotonic() - began


def values_of(path: str) -> list[NDArray[Any]]:
    with open_activations(path) as activations:
        return list(activations)


def plan_of_folder() -> str | None:
    """Return the name of the plan whose values the folder has, all of them; None if refused."""
    try:
        values = values_of("out")
    except InputError as error:
        if "/out: " not in str(error):
            raise
        return None
    plan = read_plan(Folder("out"))
    assert plan is not None
    name = next(name for name in STATES if STATES[name] == plan.settings["state"])
    for one, other in zip(values, values_of(f"../{name}.hdf5"), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    for path in Path("out").glob("part-*"):
        metadata = json.loads(parquet.read_metadata(path).metadata[b"elmo"])
        assert metadata["plan_sha256"] == plan.sha256
    return name


def try_once(forks: Any, kind: str, engine: Sequence[str], seconds: float, chance: Any) -> None:
    """Do one trial: runs at random moments, perhaps a kill, and then a run that is alone."""
    if kind == "job array":  # Ray has no shards, so that the tasks do the same parts.
        shards = [() if "ray" in engine else ("--shard", f"{number}/3") for number in (1, 2, 3)]
        runs = [Run(chance.uniform(0, seconds), "one", (*engine, *each)) for each in shards]
    else:
        delay = seconds * chance.uniform(*KINDS[kind])
        other = "one" if kind == "equal" else "other"
        runs = [Run(0, "one", (*engine,)), Run(delay, other, (*engine,))]
    do(forks, runs, chance.uniform(0, 1.5 * seconds) if chance.random() < 0.3 else math.inf, chance)
    statuses = {run.process.exitcode for run in runs}
    name = plan_of_folder()
    if -signal.SIGKILL not in statuses:
        assert name in {run.name for run in runs if run.process.exitcode == 0}
        assert kind.startswith("other") or statuses == {0}
    plan = read_plan(Folder("out"))
    name = "other" if plan is not None and plan.settings["state"] == "warm" else "one"
    last = elmo(*command_of(name, "--engine", "none"))
    assert last.exit_code == 0, last.output
    assert plan_of_folder() == name
    assert os.listdir("out/_elmo") == ["plan.parquet"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a cluster of Ray on this machine."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip('needs Ray; pip install "elmo-cli[ray]"')
    command = [sys.executable, "-c", CLUSTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]
        yield process.stdout.readline().strip()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["none", "ray"])
def test_runs_at_random_moments_do_not_mix(
    forks: Any, engine: str, kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    options = ["--engine", engine]
    if engine == "ray":
        options += ["--address", request.getfixturevalue("address"), "--workers", "1"]
    lines = (f"The cat {i} sat\n" * (i % 3) + "\n" for i in range(60))
    Path("text.txt").write_text("".join(lines))
    for name, state in STATES.items():
        selection = ("--model", TINY, "--state", state, "--layers", "top")
        assert elmo("embed", "text.txt", f"{name}.hdf5", *selection).exit_code == 0
    seconds = 0.0
    for number, chance in enumerate(trials(f"{kind}, {engine}", at_least=2)):
        (folder / str(number)).mkdir()
        os.chdir(folder / str(number))
        if number == 0:  # The time of a run that is alone.
            seconds = do(forks, [Run(0, "one", (*options,))], math.inf, chance)
        else:
            try_once(forks, kind, options, seconds, chance)
