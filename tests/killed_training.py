"""Train small models, kill the processes at random moments, and compare the weights.

It works in the current folder, which `training_runs.write_run_files` has prepared. Half of the
kills come after a random time, and half just before or after a random call that changes a file.
The last line of standard output has counts, as JSON.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from training_runs import assert_same_weights, train
from trials import trials

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "zero": {"eval_steps": 3, "steps": 9, "validation_share": 0.1, "validation_file": None},
    "carry": {"eval_steps": 4, "epochs": 1, "state": "carry", "optimizer": "adagrad"},
}
_CALLS = ("replace", "fsync", "unlink", "close")
"""Functions of `os` that are called when files change."""
_MAX_CALLS = 25


def main() -> None:
    """Kill runs and finish them, while there is time."""
    torch.set_num_threads(1)
    seconds = {}
    for name, settings in CONFIGURATIONS.items():
        started = time.monotonic()
        if wait(start(partial(train, f"whole-{name}", keep_checkpoint=False, **settings))):
            raise SystemExit(f"{name}: the run that nobody kills has failed")
        seconds[name] = time.monotonic() - started
    counts = {"kills": 0, "before_first_checkpoint": 0, "finished_runs": 0}
    for chosen in trials("kills of training", 3):
        name = chosen.choice(list(CONFIGURATIONS))
        while run_once(name, chosen, seconds[name]):
            counts["kills"] += 1
            left = [Path("parts", name) for name in ("checkpoint.pt", "training.json")]
            counts["before_first_checkpoint"] += not any(path.exists() for path in left)
        assert_same_weights(f"whole-{name}", "parts")
        assert not Path("parts/checkpoint.pt").exists()
        shutil.rmtree("parts")
        counts["finished_runs"] += 1
    sys.stdout.write(json.dumps(counts) + "\n")


def run_once(name: str, chosen: random.Random, seconds: float) -> bool:
    """Begin or resume a run. Return whether it was killed; stop the program if it failed."""
    interval = chosen.choice([0.0, 0.05, 1000.0])
    by_time = chosen.random() < 0.5
    call, after = chosen.randint(1, _MAX_CALLS), chosen.random() < 0.5
    if not Path("parts").exists():
        # Almost every first kill comes before the first checkpoint.
        by_time, call = False, chosen.randint(1, 4)

    def work() -> None:
        if not by_time:
            kill_at_call(call, after=after)
        settings = {"checkpoint_seconds": interval, "keep_checkpoint": False}
        train("parts", **settings, **CONFIGURATIONS[name])

    process = start(work)
    if by_time:
        time.sleep(chosen.uniform(0, seconds))
        os.kill(process, signal.SIGKILL)
    status = wait(process)
    if status not in (0, -signal.SIGKILL):
        raise SystemExit(f"{name}: the run ended with status {status}")
    return status != 0


def kill_at_call(number: int, *, after: bool) -> None:
    """Kill this process before or after a call of a function that changes files."""
    n_calls = 0

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            if n_calls == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **options)
            if n_calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for name in _CALLS:
        setattr(os, name, wrap(getattr(os, name)))


def start(work: Callable[[], object]) -> int:
    """Start a process that does some work, and return its number."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return process


def wait(process: int) -> int:
    """Wait for the end of a process, and return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    main()
