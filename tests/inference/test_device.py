import pytest
import torch

from elmo_cli.errors import DeviceError
from elmo_cli.inference.device import choose_device


def have_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_minus_one_is_the_cpu() -> None:
    assert choose_device(-1) == torch.device("cpu")


def test_other_numbers_are_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 2)
    assert choose_device(0) == torch.device("cuda", 0)
    assert choose_device(1) == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("count", "number", "found"), [(0, 0, "none"), (1, 1, "only 0 to 0"), (2, -2, "only 0 to 1")]
)
def test_a_gpu_that_is_not_there_is_an_error_that_says_what_is(
    count: int, number: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_gpus(monkeypatch, count)
    with pytest.raises(DeviceError) as caught:
        choose_device(number)
    assert str(caught.value) == (
        f"CUDA device {number}: expected a GPU of that number, found {found}; "
        "leave --cuda out to run on the CPU"
    )
