"""Training on GPUs, emulated and real, and the group of several processes."""

from datetime import timedelta
from unittest.mock import Mock

import pytest
import torch
from numpy.testing import assert_allclose
from training_runs import train, weights

from elmo_cli.errors import DeviceError, ElmoError
from elmo_cli.training.training_run import join_processes

VARIABLES = dict(zip(("WORLD_SIZE", "RANK", "LOCAL_RANK"), "210", strict=True))
VARIABLES |= {"MASTER_ADDR": "a", "MASTER_PORT": "1"}


pytestmark = pytest.mark.usefixtures("training_folder")


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
    options = {"state": state, "negative_samples": negative_samples, "dropout": 0.0, "epochs": None}
    options |= {"decay_share": 0, "warmup_steps": 0}
    expected = train("cpu", steps=2, **options)
    train("gpu", device=gpu, steps=1, **options)
    perplexity = train("gpu", device=gpu, steps=2, **options)  # The run resumes.
    assert perplexity["average"] == pytest.approx(expected["average"], rel=1e-4)
    trained, other = weights("cpu"), weights("gpu")
    for name, values in trained.items():
        assert_allclose(other[name], values, atol=1e-4, err_msg=name)


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize(("device", "backend"), [("cuda", "cpu:gloo,cuda:nccl"), ("cpu", "gloo")])
def test_processes_wait_for_a_long_evaluation(
    device: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Mock()
    monkeypatch.setattr(torch.distributed, "init_process_group", start)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", Mock())
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", Mock())
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with join_processes(device) as processes:
        assert (processes.device.type, processes.rank, processes.count) == (device, 1, 2)
    start.assert_called_once_with(backend, timeout=timedelta(days=1))
    monkeypatch.setenv("LOCAL_RANK", "1")
    if device == "cuda":
        message = (
            "--device 'cuda:1': torch finds 1 GPU, and numbers start at 0. Use a lower number."
        )
        with pytest.raises(DeviceError, match=message), join_processes(device):
            pass


def test_processes_without_torchrun_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ElmoError) as caught, join_processes("cpu"):
        pass
    assert str(caught.value) == (
        "WORLD_SIZE is 2, without LOCAL_RANK, MASTER_ADDR, MASTER_PORT. Start all processes with "
        "torchrun, or unset WORLD_SIZE."
    )
