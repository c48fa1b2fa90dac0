"""Two and more runs on one folder at random moments, with and without kills.

Each trial leaves the parts of one plan, or a refusal that names the folder.
"""

import json
import math
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet

from elmo_cli import open_activations
from elmo_cli.distributed.plan import read_plan
from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.shared_folder import Folder
from tests.support.commands import TINY, elmo, start_elmo
from tests.support.distributed_runs import end_of
from tests.support.trials import trials

pytestmark = pytest.mark.long
KINDS = {"other at start": (0, 0.3), "other at work": (0.3, 1.3)}
KINDS |= {"equal": (0, 1), "job array": (0, 1)}
"""Trials, and when the later runs start, in units of the time of a run."""
STATES = {"one": "zero", "other": "warm"}
"""Runs of a trial, which have other plans and other values."""
Run = tuple[float, str, Sequence[str]]
"""Second at which a run starts, its plan, and its other options."""


def command_of(name: str, options: Sequence[str]) -> list[str]:
    """Return the arguments of a run: each name is another plan."""
    model = ["--model", str(TINY), "--state", STATES[name], "--layers", "top"]
    return [
        "distribute",
        "../text.txt",
        "out",
        "--part-size",
        "0.001",
        *model,
        *options,
    ]


End = tuple[str, int]
"""Plan of a run, and its exit status."""


def do(runs: list[Run], kill_at: float, chance: random.Random) -> list[End]:
    """Start runs at their moments, kill one of them, and return how each ended."""
    began = time.monotonic()
    waiting = sorted(runs)
    started: list[tuple[str, Any]] = []
    while waiting or any(process.poll() is None for _, process in started):
        now = time.monotonic() - began
        assert now < 300
        if waiting and now >= waiting[0][0]:
            _, name, options = waiting.pop(0)
            started.append((name, start_elmo(*command_of(name, options))))
        if now >= kill_at and started:
            chance.choice(started)[1].kill()
            kill_at = math.inf
        time.sleep(0.001)
    statuses = []
    for name, process in started:
        status, said = end_of(process)
        assert status in (0, 1, -signal.SIGKILL), said
        assert not any("Traceback" in line for line in said), said
        if status == 1:
            assert said[-1].startswith("Error: "), said
            assert "/out" in said[-1], said
        statuses.append((name, status))
    return statuses


def plan_of_folder() -> str | None:
    """Return the name of the plan that all values are of; None if refused."""
    try:
        with open_activations("out") as activations:
            values = list(activations)
    except InputError as error:
        if "/out: " not in str(error):
            raise
        return None
    plan = read_plan(Folder("out"))
    assert plan is not None
    name = next(name for name in STATES if STATES[name] == plan.settings["state"])
    with open_activations(f"../{name}.hdf5") as expected:
        for one, other in zip(values, expected, strict=True):
            assert_allclose(one, other, atol=2e-6)
    for path in Path("out").glob("part-*"):
        metadata = json.loads(parquet.read_metadata(path).metadata[b"elmo"])
        assert metadata["plan_sha256"] == plan.sha256
    return name


def try_once(
    kind: str, engine: Sequence[str], seconds: float, chance: random.Random
) -> None:
    """Do one trial: runs at random moments, perhaps a kill, then a run alone."""
    runs: list[Run]
    if kind == "job array":
        runs = []
        for shard in ("1/3", "2/3", "3/3"):
            options = list(engine)
            # Ray has no shards: there, all tasks of the array do the same parts.
            if "ray" not in engine:
                options += ["--shard", shard]
            runs.append((chance.uniform(0, seconds), "one", options))
    else:
        earliest, latest = KINDS[kind]
        delay = seconds * chance.uniform(earliest, latest)
        later = "one" if kind == "equal" else "other"
        runs = [(0, "one", engine), (delay, later, engine)]
    kill_at = math.inf
    if chance.random() < 0.3:
        kill_at = chance.uniform(0, 1.5 * seconds)
    ends = do(runs, kill_at, chance)
    statuses = {status for _, status in ends}
    name = plan_of_folder()
    if -signal.SIGKILL not in statuses:
        assert name in {name for name, status in ends if status == 0}
        if not kind.startswith("other"):
            assert statuses == {0}
    plan = read_plan(Folder("out"))
    name = "other" if plan is not None and plan.settings["state"] == "warm" else "one"
    last = elmo(*command_of(name, ("--engine", "none")))
    assert last.exit_code == 0, last.output
    assert plan_of_folder() == name
    assert os.listdir("out/_elmo") == ["plan.parquet"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["none", "ray"])
def test_runs_at_random_moments_do_not_mix(
    engine: str, kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    options = ["--engine", engine]
    if engine == "ray":
        options += ["--address", request.getfixturevalue("address"), "--workers", "1"]
    lines = [f"The cat {i} sat\n" * (i % 3) + "\n" for i in range(60)]
    Path("text.txt").write_text("".join(lines))
    for name, state in STATES.items():
        command = f"embed text.txt {name}.hdf5 --state {state} --layers top --model"
        assert elmo(*command.split(), TINY).exit_code == 0
    seconds = 0.0
    for index, chance in enumerate(trials(f"{kind}, {engine}", at_least=2)):
        (folder / str(index)).mkdir()
        os.chdir(folder / str(index))
        if index == 0:  # The time of a run that is alone.
            began = time.monotonic()
            assert do([(0, "one", options)], math.inf, chance) == [("one", 0)]
            seconds = time.monotonic() - began
        else:
            try_once(kind, options, seconds, chance)
