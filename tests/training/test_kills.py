"""Kills of training at random moments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from training_runs import prepare_folder

TESTS = Path(__file__).parents[1]
N_KILLS = int(os.environ.get("ELMO_TEST_KILLS", "15"))
"""Number of kills; 100 take about two minutes."""


@pytest.mark.slow
def test_run_killed_at_random_moments_equals_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_folder(tmp_path, monkeypatch)
    command = [sys.executable, str(TESTS / "killed_training.py"), str(N_KILLS)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert result.returncode == 0, result.stderr
    counts = json.loads(result.stdout.splitlines()[-1])
    assert counts["kills"] == N_KILLS
    assert counts["before_first_checkpoint"] > 0
    assert counts["finished_runs"] > 0
