"""Kills of training at random moments."""

import json
from pathlib import Path

import pytest
from commands import TESTS, run_python
from training_runs import prepare_folder


@pytest.mark.long
def test_run_killed_at_random_moments_equals_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_folder(tmp_path, monkeypatch)
    result = run_python(TESTS / "killed_training.py", timeout=3600)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = json.loads(result.stdout.splitlines()[-1])
    print(counts)  # noqa: T201
    assert counts["kills"] > 0
    assert counts["finished_runs"] > 0
