"""Training in which the system refuses a call, or ends at any moment, goes on to equal weights."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import TESTS, run_python
from failing_disk import Disk, kills, restore
from training_runs import assert_same_weights, train

from elmo_cli.errors import ElmoError

SETTINGS: dict[str, Any] = {
    "steps": 2,
    "eval_steps": 2,
    "checkpoint_seconds": 0.0,
    "keep_checkpoint": False,
}


pytestmark = pytest.mark.usefixtures("training_folder")


def assert_ends_equal(output: str) -> None:
    """Assert that the same command ends a run as one that nothing has disturbed."""
    train(output, **SETTINGS)
    assert_same_weights("whole", output)
    names = [{path.name for path in Path(each).iterdir()} for each in ("whole", output)]
    assert names[0] == names[1]


def test_training_killed_before_any_call_resumes() -> None:
    Path("whole").mkdir()
    with kills(Path("whole")) as states:
        train("whole", **SETTINGS)
    assert len(states) > 5
    for number, state in enumerate(states):
        restore(state, Path(str(number)))
        assert_ends_equal(str(number))


def test_training_resumes_after_any_call_that_failed() -> None:
    counting = Disk()
    with counting.used():
        train("whole", **SETTINGS)
    for number in range(1, counting.n_calls + 1):
        with Disk([number]).used(), suppress(ElmoError):
            train(str(number), **SETTINGS)
        assert_ends_equal(str(number))


@pytest.mark.long
def test_run_killed_at_random_moments_equals_whole_run() -> None:
    result = run_python(TESTS / "killed_training.py", timeout=3600)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = json.loads(result.stdout.splitlines()[-1])
    print(counts)  # noqa: T201
    assert counts["kills"] > 0
    assert counts["finished_runs"] > 0
