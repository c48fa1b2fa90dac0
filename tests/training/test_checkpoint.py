"""Stopping and resuming a run."""

import json
import random
import resource
import signal
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from commands import elmo, start_elmo
from runs import stop_after
from strategies import small_architecture
from training_runs import assert_same_weights, content, log_entries, prepare_folder, train

from elmo_cli.errors import ElmoError, ModelError, OutputError, StoppedError
from elmo_cli.training.checkpoint import own_folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare_folder(tmp_path, monkeypatch)
    return tmp_path


class KilledError(Exception):
    """Stand-in for a kill."""


def kill_after(n_steps: int) -> Callable[[], bool]:
    """Return a `should_stop` that raises after `n_steps` steps."""
    stop = stop_after(n_steps)

    def should_stop() -> bool:
        if stop():
            raise KilledError
        return False

    return should_stop


@pytest.mark.parametrize(
    ("state", "optimizer"),
    [
        ("zero", "adamw"),
        ("carry", "adagrad"),
        pytest.param("zero", "adagrad", marks=pytest.mark.slow),
        pytest.param("carry", "adamw", marks=pytest.mark.slow),
    ],
)
def test_stopped_and_resumed_run_equals_whole_run(state: str, optimizer: str) -> None:
    settings = {"state": state, "optimizer": optimizer, "eval_steps": 7}
    expected = train("whole", **settings)
    for step in (1, 6, 9):
        with pytest.raises(StoppedError, match=r"^Stopped after step \d+, which is kept in parts"):
            train("parts", should_stop=stop_after(step), **settings)
    assert train("parts", **settings) == expected
    assert_same_weights("whole", "parts")
    for found, entry in zip(log_entries("parts"), log_entries("whole"), strict=True):
        assert found["step"] == entry["step"]
        assert found.get("training_loss", 0) == pytest.approx(entry.get("training_loss", 0))


@pytest.mark.slow
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_run_killed_at_random_steps_equals_whole_run(state: str) -> None:
    train("whole", state=state)
    chosen = random.Random(state)
    n_kills = 0
    for _ in range(12):
        seconds = chosen.choice([0.0, 0.02, 1000.0])  # between checkpoints
        kill = kill_after(chosen.randint(1, 12))
        try:
            train("parts", state=state, should_stop=kill, checkpoint_seconds=seconds)
        except KilledError:
            n_kills += 1
    train("parts", state=state)
    assert n_kills >= 3
    assert_same_weights("whole", "parts")


@pytest.mark.slow
def test_killed_process_resumes_to_equal_weights() -> None:
    arguments = [
        *("text.txt", "--options-file", "options.json", "--vocabulary-size", "40"),
        *("--batch-tokens", "40", "--epochs", "6", "--negative-samples", "6"),
        *("--checkpoint-seconds", "0", "--output"),
    ]
    checkpoint = Path("parts/checkpoint.pt")
    before = 0
    for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = start_elmo("train", *arguments, "parts")
        while process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        process.send_signal(ending)
        _, errors = process.communicate(timeout=300)
        if process.returncode not in (0, -signal.SIGKILL):
            assert process.returncode == 128 + ending
            assert b"The same command resumes it" in errors
        before = checkpoint.stat().st_mtime_ns
    assert elmo("train", *arguments, "parts").exit_code == 0
    assert elmo("train", *arguments, "whole").exit_code == 0
    assert_same_weights("whole", "parts")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"dropout": 0.2}, "dropout 0.1"),
        ({"options_file": "other.json"}, "another architecture"),
        ({"vocabulary_size": 19}, "another vocabulary"),
        ({"validation_share": 0.3, "vocabulary_size": 19}, "another text and vocabulary"),
    ],
)
def test_resume_refuses_another_run(other: dict[str, Any], found: str) -> None:
    Path("other.json").write_text(json.dumps(small_architecture(dim=6)))
    settings = {"validation_file": None, "validation_share": 0.2, "steps": 2}
    train("model", **settings)
    before = content("model")
    with pytest.raises(ModelError, match=f"^model: the run in this folder has {found}\\. Repeat"):
        train("model", **{**settings, **other})
    assert content("model") == before


def test_folder_is_locked_during_training() -> None:
    message = r"^model: another process is training there\. "
    with own_folder(Path("model")), pytest.raises(OutputError, match=message):
        train("model")
    train("model", steps=1)


def test_full_disk_keeps_the_last_checkpoint() -> None:
    train("model", steps=3)
    before = content("model")["checkpoint.pt"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"checkpoint\.pt: cannot be written: File too large"):
            train("model", steps=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content("model")["checkpoint.pt"] == before
    assert not list(Path("model").glob("*.partial"))
    train("model", steps=5)


@pytest.mark.parametrize("damage", ["replaced", "cut off", "changed", "code", "another"])
def test_damaged_checkpoint_is_reported(damage: str) -> None:
    train("model", steps=1)
    path = Path("model/checkpoint.pt")
    whole = path.read_bytes()
    half = len(whole) // 2
    if damage == "code":
        torch.save({"step": Path("x")}, path)
    elif damage == "another":
        torch.save([1.0], path)
    elif damage == "changed":
        path.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
    else:
        path.write_bytes(whole[:half] if damage == "cut off" else b"no checkpoint")
    with pytest.raises(ModelError, match=r"^model/checkpoint.pt: the checkpoint is damaged \("):
        train("model", steps=2)


def test_unexpected_errors_propagate_from_a_resume() -> None:
    train("model", steps=1)
    places = ("load", "optim.Optimizer.load_state_dict", "nn.Module.load_state_dict")
    for place, error in product(places, (torch.cuda.OutOfMemoryError, MemoryError, TypeError)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"torch.{place}", Mock(side_effect=error("CUDA out of memory")))
            with pytest.raises(error, match=r"^CUDA out of memory$"):
                train("model", steps=2)


def test_infinite_loss_keeps_the_last_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train("model", steps=2)
    before = content("model")["checkpoint.pt"]
    monkeypatch.setattr("elmo_cli.training.run.learning_rate_at", lambda *_: float("nan"))
    with pytest.raises(ElmoError, match=r"^step 5: the loss is not finite, so training has failed"):
        train("model", steps=5)
    assert content("model")["checkpoint.pt"] == before


def test_training_refuses_the_folder_of_another_model() -> None:
    train("model", steps=2)
    Path("model/checkpoint.pt").unlink()
    before = content("model")
    with pytest.raises(ModelError, match=r"^model: weights\.hdf5 is there, but no checkpoint\.pt"):
        train("model", steps=1, vocabulary_size=9)
    assert content("model") == before
