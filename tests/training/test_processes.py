"""Training on GPUs or several processes gives the weights of one on the CPU."""

import json
import os
import socket
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import torch
from numpy.testing import assert_allclose

from elmo_cli.errors.exceptions import DeviceError, ElmoError
from elmo_cli.training.processes import join_processes
from tests.support.commands import Forked, elmo, start_elmo
from tests.support.training_runs import log_entries, train, weights

RANKS = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
VARIABLES = {**RANKS, "MASTER_ADDR": "a", "MASTER_PORT": "1"}

pytestmark = pytest.mark.usefixtures("training_folder")


def start_two(*arguments: str) -> list[Forked]:
    """Start two processes of the command, with the variables that torchrun sets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        start_elmo(
            *arguments,
            env={**os.environ, **variables, "RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in ("0", "1")
    ]


@pytest.mark.parametrize(
    "options",
    ["--state carry --batch-size 4 --unroll 5", "--state zero --batch-tokens 60"],
)
def test_two_processes_give_the_weights_of_one(options: str) -> None:
    # The first steps of Adagrad are as long as the gradients.
    model = (
        "--options-file options.json --optimizer adagrad --negative-samples 6 "
        "--dropout 0"
    )
    command = (
        f"train text.txt {model} {options} --validation-file validation.txt "
        "--keep-checkpoint"
    )
    arguments = command.split()
    for process in start_two(*arguments, "--steps", "10", "--output", "two"):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    assert elmo(*arguments, "--steps", "10", "--output", "one").exit_code == 0
    tensors = weights("two")
    losses = [log_entries(folder)[0] for folder in ("one", "two")]
    assert losses[0]["training_loss"] == pytest.approx(
        losses[1]["training_loss"], rel=1e-5
    )
    for name, values in weights("one").items():
        assert_allclose(tensors[name], values, atol=1e-4, err_msg=name)
    assert elmo(*arguments, "--steps", "12", "--output", "two").exit_code == 0
    assert json.loads(Path("two/training.json").read_text())["step"] == 12


@pytest.mark.parametrize(
    ("gpu", "state", "negative_samples"),
    [
        ("fake cuda", "zero", 0),
        ("fake mps", "carry", 6),
        pytest.param("cuda", "zero", 0, marks=pytest.mark.cuda),
        pytest.param("cuda", "carry", 6, marks=pytest.mark.cuda),
        pytest.param("mps", "carry", 6, marks=pytest.mark.mps),
    ],
    indirect=["gpu"],
)
def test_training_on_a_gpu_gives_the_model_of_the_cpu(
    gpu: str, state: str, negative_samples: int
) -> None:
    options = {
        "state": state,
        "negative_samples": negative_samples,
        "dropout": 0.0,
        "epochs": None,
    }
    options |= {"decay_share": 0, "warmup_steps": 0}
    expected = train("cpu", steps=2, **options)
    train("gpu", device=gpu, steps=1, **options)
    perplexity = train("gpu", device=gpu, steps=2, **options)  # The run resumes.
    assert perplexity["average"] == pytest.approx(expected["average"], rel=1e-4)
    trained = weights("cpu")
    other = weights("gpu")
    for name, values in trained.items():
        assert_allclose(other[name], values, atol=1e-4, err_msg=name)


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize(
    ("device", "own", "backend"),
    [
        ("cuda", "cuda:1", "cpu:gloo,cuda:nccl"),
        ("cuda:0", "cuda:1", "cpu:gloo,cuda:nccl"),
        ("cpu", "cpu", "gloo"),
    ],
)
def test_each_process_has_its_gpu_and_a_long_timeout(
    device: str, own: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "init_process_group", start := Mock())
    monkeypatch.setattr(torch.distributed, "destroy_process_group", Mock())
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", chosen := Mock())
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        with join_processes(device) as processes:
            assert processes.device == torch.device(own)
            assert processes.rank == 1
            assert processes.count == 2
    start.assert_called_once_with(backend, timeout=timedelta(days=1))
    expected_calls = [call(torch.device(own))] if own == "cuda:1" else []
    assert chosen.mock_calls == expected_calls
    if own == "cuda:1":
        message = (
            "device cuda:1: torch finds 1 GPU, and numbers start at 0. Use a lower "
            "number"
        )
        with pytest.raises(DeviceError, match=message), join_processes(device):
            pass


def test_processes_without_torchrun_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    message = (
        "WORLD_SIZE is 2, without LOCAL_RANK, MASTER_ADDR, MASTER_PORT. Start all "
        "processes"
    )
    with (
        pytest.raises(ElmoError, match=f"^{message} with torchrun"),
        join_processes("cpu"),
    ):
        pass
