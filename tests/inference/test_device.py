import pytest
import torch

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import DeviceError
from elmo_cli.inference.precision import Device, choose_device


def have(monkeypatch: pytest.MonkeyPatch, n_gpus: int = 0, mps: bool = False) -> None:
    """Let torch report `n_gpus` GPUs, and MPS if `mps`."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((-1, "cpu"), ("-1", "cpu"), ("cpu", "cpu"), (torch.device("cpu"), "cpu")),
        *((1, "cuda:1"), ("1", "cuda:1"), ("cuda:1", "cuda:1")),
        *(("cuda", "cuda:0"), ("auto", "cuda:0"), (torch.device("mps", 0), "mps")),
    ],
)
def test_a_device_has_a_name_or_a_number(
    name: Device, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, n_gpus=2, mps=True)
    assert choose_device(name) == torch.device(expected)


def test_auto_takes_an_available_device(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, mps=True)
    assert choose_device("auto") == torch.device("mps")
    have(monkeypatch)
    assert choose_device("auto") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "n_gpus", "devices"),
    [
        *((0, 0, "cpu"), ("cuda", 0, "cpu"), ("mps", 0, "cpu"), ("gpu", 0, "cpu"), ("", 0, "cpu")),
        *(("cuda:1", 1, "cuda:0, cpu"), (-2, 1, "cuda:0, cpu"), ("cuda:x", 1, "cuda:0, cpu")),
    ],
)
def test_a_missing_device_raises_an_error_with_the_others(
    name: Device, n_gpus: int, devices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, n_gpus)
    with pytest.raises(DeviceError) as caught:
        choose_device(name)
    shown = f"cuda:{name}" if name == 0 else name
    message = (
        f"device {str(shown)!r}: expected auto or a device of this machine, found only {devices}"
    )
    assert str(caught.value) == message


def test_an_embedder_takes_a_device_by_its_name() -> None:
    embedder = ElmoEmbedder(device="cpu", cuda_device=7)
    assert embedder.cuda_device == -1
    with pytest.raises(DeviceError, match="expected auto or a device of this machine"):
        ElmoEmbedder(device="tpu")
