"""Train small models, kill the processes at random times, and compare the weights.

It works in the current folder, which `training_runs.write_run_files` has prepared. The
last line of standard output has counts, as JSON. Kills before each call that changes a
file are in `training/test_checkpoint.py`.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from tests.support.training_runs import assert_same_weights, train
from tests.support.trials import trials

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "zero": {
        "eval_steps": 3,
        "steps": 9,
        "validation_share": 0.1,
        "validation_file": None,
    },
    "carry": {"eval_steps": 4, "epochs": 1, "state": "carry", "optimizer": "adagrad"},
}


def main() -> None:
    """Kill runs and finish them, while there is time."""
    torch.set_num_threads(1)
    seconds = {}
    for name in CONFIGURATIONS:
        started = time.monotonic()
        wait(start(name, f"whole-{name}"))
        seconds[name] = time.monotonic() - started
    counts = {"kills": 0, "finished_runs": 0}
    for chosen in trials("kills of training", 3):
        name = chosen.choice(list(CONFIGURATIONS))
        while True:
            process = start(
                name, "parts", checkpoint_seconds=chosen.choice([0.0, 0.05, 1000.0])
            )
            time.sleep(chosen.uniform(0, 1.5 * seconds[name]))
            os.kill(process, signal.SIGKILL)
            if not wait(process):
                break
            counts["kills"] += 1
        assert_same_weights(f"whole-{name}", "parts")
        assert not Path("parts/checkpoint.pt").exists()
        shutil.rmtree("parts")
        counts["finished_runs"] += 1
    sys.stdout.write(json.dumps(counts) + "\n")


def start(name: str, output: str, **settings: Any) -> int:
    """Begin or resume a run in a process, and return its number."""
    process = os.fork()
    if process == 0:
        try:
            train(output, keep_checkpoint=False, **CONFIGURATIONS[name], **settings)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return process


def wait(process: int) -> bool:
    """Wait for a process, and return whether it was killed. Stop if it failed."""
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise SystemExit(f"a run ended with status {status}")
    return status != 0


if __name__ == "__main__":
    main()
