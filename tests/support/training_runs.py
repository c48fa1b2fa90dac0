"""Small training runs for tests: texts, options, and the content of the folders."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli.model.tensor_files import open_tensors
from elmo_cli.training.train import train_model
from elmo_cli.training.training_settings import (
    RunSettings,
    StartSettings,
    TrainingSettings,
    TrainingTextSettings,
)
from tests.support.strategies import small_architecture

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_tokens": 40,
    "max_length": 12,
    "batch_size": 4,
    "unroll": 5,
    "negative_samples": 6,
    "learning_rate": 0.01,
    "vocabulary_size": 40,
    "keep_checkpoint": True,
}


def write_run_files() -> None:
    """Write two texts and the options of a small model into the current folder."""
    words = random.Random(0)
    lines = [
        " ".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=n % 15))
        for n in range(60)
    ]
    Path("text.txt").write_text("\n".join(lines))
    Path("validation.txt").write_text("a b c d\ne f ?\n")
    Path("options.json").write_text(json.dumps(small_architecture()))


@contextmanager
def run_in(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write those files into a new folder, the current one in the context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(factory.mktemp("run"))
        write_run_files()
        yield Path.cwd()


def train(output: str, *, should_stop: Any = lambda: False, **settings: Any) -> Any:
    """Train with the settings of `train_model`, all in one dictionary."""
    values: dict[str, Any] = {
        "files": ("text.txt",),
        "options_file": "options.json",
        "validation_file": "validation.txt",
    }
    values |= SETTINGS | settings
    text = TrainingTextSettings(**_take(TrainingTextSettings, values))
    start = StartSettings(**_take(StartSettings, values))
    training = _take(TrainingSettings, values)
    run = RunSettings(**_take(RunSettings, values))
    assert not values, values
    return train_model(text, output, start, training, run, should_stop=should_stop)


def _take(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Remove the entries named like a field from a dictionary, and return them."""
    return {
        field.name: values.pop(field.name)
        for field in fields(kind)
        if field.name in values
    }


def tune(output: str, model: str | Path, **settings: Any) -> Any:
    """Fine-tune for a few steps, with a rate too small to change the weights."""
    small = {"learning_rate": 1e-9, "steps": 3}
    return train(output, options_file=None, init_from=model, **{**small, **settings})


def log_entries(output: str) -> list[dict[str, Any]]:
    """Return the entries of a folder's log."""
    return [
        json.loads(line) for line in Path(output, "log.jsonl").read_text().splitlines()
    ]


def content(output: str) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in Path(output).iterdir()}


def weights(output: str) -> dict[str, Any]:
    """Return all tensors of a trained model, including its softmax."""
    tensors: dict[str, Any] = {}
    for name in ("weights.hdf5", "softmax.hdf5"):
        with open_tensors(Path(output) / name) as file:
            tensors |= {tensor: file.read(tensor) for tensor in file.names}
    return tensors


def assert_same_weights(one: str, other: str) -> None:
    """Assert that two trained models are equal bit for bit."""
    expected = weights(one)
    tensors = weights(other)
    assert expected.keys() == tensors.keys()
    for name, values in expected.items():
        assert np.array_equal(values, tensors[name]), name
