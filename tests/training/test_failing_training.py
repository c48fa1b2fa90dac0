"""Training in which the system refuses a call, or ends at any moment, goes on to equal weights."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from commands import TESTS, run_python
from failing_disk import Disk, kills, restore, state_of
from training_runs import content, train

from elmo_cli.errors import ElmoError

SETTINGS: dict[str, Any] = {
    "steps": 2,
    "eval_steps": 2,
    "checkpoint_seconds": 0.0,
    "keep_checkpoint": False,
}

pytestmark = pytest.mark.usefixtures("training_folder")


def test_training_resumes_after_any_call_that_failed() -> None:
    """Refuse each call in turn, and kill before each call. Finish a run from each state left."""
    Path("whole").mkdir()
    # Files of runs that were stopped at the same point are equal if no time passes.
    with patch("time.monotonic", return_value=0.0):
        with kills(Path("whole")) as states:
            train("whole", **SETTINGS)
        counting = Disk()
        with counting.used():
            train("counted", **SETTINGS)
        whole = content("counted") | {"log.jsonl": b""}
        for number in range(1, counting.n_calls + 1):
            with Disk([number]).used(), suppress(ElmoError):
                train(f"failed-{number}", **SETTINGS)
            state = state_of(Path(f"failed-{number}"))
            states += [state] * (state not in states)
        assert counting.n_calls > len(states) > 25
        for number, state in enumerate(states):
            restore(state, Path(str(number)))
            train(str(number), **SETTINGS)
            # A validation may stand twice in the log.
            assert content(str(number)) | {"log.jsonl": b""} == whole


@pytest.mark.long
def test_run_killed_at_random_moments_equals_whole_run() -> None:
    result = run_python(TESTS / "killed_training.py", timeout=3600)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = json.loads(result.stdout.splitlines()[-1])
    print(counts)  # noqa: T201
    assert counts["kills"] > 0
    assert counts["finished_runs"] > 0
