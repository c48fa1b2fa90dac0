"""Several processes under torchrun give the gradients and weights of one process."""

import json
import os
import random
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import Forked, elmo
from conftest import GOLDEN
from training_runs import weights

SCRIPT = """
import sys
from pathlib import Path

import torch

from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.corpus import TextProgress, TrainingText, read_batches
from elmo_cli.training.start import choose_start, start_weights
from elmo_cli.training.training_options import StartOptions, TrainingOptions
from elmo_cli.training.training_run import Run, join_processes

vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", *"abcdefghij"])
results = {}
with join_processes("cpu") as processes:
    for state in ("zero", "carry"):
        options = TrainingOptions(
            steps=9, state=state, batch_tokens=60, batch_size=4, unroll=5, dropout=0.0,
            negative_samples=6, learning_rate=1e-9, max_grad_norm=1e9,
        )
        start = choose_start(StartOptions("options.json"))
        run = Run(start_weights(start, vocabulary, options), vocabulary, options, processes)
        batches = read_batches(TrainingText((Path("text.txt"),)), options, TextProgress())
        gradients = []
        for _ in range(3):  # The state is carried over twice.
            run.train_step(*next(batches))
            gradients.append({n: p.grad.clone() for n, p in run.objective.named_parameters()})
        results[state] = gradients, run.take_loss()
        run.close()
    if processes.is_first:
        torch.save(results, sys.argv[1])
# A thread of the group that still holds a tensor aborts the process when Python ends.
threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
assert not [name for name in threads if "gloo" in name], threads
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder, with a text, options and the script."""
    monkeypatch.chdir(tmp_path)
    words = random.Random(1)
    lines = [" ".join(words.choices("abcdefghijk", k=1 + n % 11)) for n in range(60)]
    Path("text.txt").write_text("\n".join(lines))
    Path("options.json").write_text((GOLDEN / "tanh-clip" / "options.json").read_text())
    Path("script.py").write_text(SCRIPT)
    return tmp_path


def start(*arguments: str, **variables: str) -> Forked:
    """Start a Python program, with more variables of the environment."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return Forked(*arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def start_two(*arguments: str) -> list[Forked]:
    """Start two processes with the variables that torchrun would set."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [start(*arguments, RANK=rank, LOCAL_RANK=rank, **group) for rank in ("0", "1")]


def finish(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()


def test_two_processes_give_the_gradients_of_one() -> None:
    finish(start("script.py", "one.pt"), *start_two("script.py", "two.pt"))
    one, two = (torch.load(name, weights_only=True) for name in ("one.pt", "two.pt"))
    for state in ("zero", "carry"):
        assert one[state][1] == pytest.approx(two[state][1], rel=1e-5)
        for expected, gradients in zip(one[state][0], two[state][0], strict=True):
            assert expected.keys() == gradients.keys()
            assert max(float(gradient.abs().max()) for gradient in expected.values()) > 1e-3
            for name, gradient in expected.items():
                np.testing.assert_allclose(gradients[name], gradient, atol=1e-5, err_msg=name)


def test_run_of_two_processes_resumes_in_one() -> None:
    arguments = (
        *("train", "text.txt", "--options-file", "options.json", "--state", "carry"),
        *("--batch-size", "4", "--unroll", "5", "--negative-samples", "0", "--dropout", "0"),
        *("--vocabulary-size", "9", "--validation-file", "text.txt"),
    )
    finish(
        *start_two(
            "-m", "elmo_cli", *arguments, "--steps", "4", "--output", "two", "--keep-checkpoint"
        )
    )
    assert elmo(*arguments, "--steps", "4", "--output", "one").exit_code == 0
    expected, tensors = weights("one"), weights("two")
    for name, values in expected.items():
        np.testing.assert_allclose(tensors[name], values, atol=1e-4, err_msg=name)
    assert elmo(*arguments, "--steps", "6", "--output", "two", "--keep-checkpoint").exit_code == 0
    assert json.loads(Path("two/training.json").read_text())["step"] == 6
