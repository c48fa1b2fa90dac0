"""Devices: the CPU, GPUs of NVIDIA and of Apple."""

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from elmo_cli.errors.exceptions import DeviceError
from elmo_cli.errors.messages import Message, option_named, option_of
from elmo_cli.errors.wording import counted
from elmo_cli.options.model import check_device

Device: TypeAlias = str | int | torch.device
"""Name of a device or number of a GPU; see `choose_device`."""

CPU: Final = torch.device("cpu")

_SYNONYMS: Final = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device, argument: str = "device") -> torch.device:
    """Return the device that a name or a number selects.

    Raise a `DeviceError` if it is missing, and a `SettingsError` for another value.

    Args:
        device: `cuda` is the first GPU of CUDA, and `auto` too, or else the CPU. -1 is
            the CPU, N `cuda:N`.
        argument: Argument with the device, for errors.
    """
    typed = check_device(device, argument)
    name = f"cuda:{typed}" if typed.isdecimal() else typed
    chosen = _SYNONYMS.get(name, name)
    # To count GPUs starts CUDA, which a process that forks must not do.
    if chosen == "cpu":
        return torch.device(chosen)
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if chosen == "auto":
        return torch.device("cuda:0" if n_gpus > 0 else "cpu")
    gpus = [f"cuda:{number}" for number in range(n_gpus)]
    if chosen in gpus or (chosen == "mps" and torch.backends.mps.is_available()):
        return torch.device(chosen)
    raise DeviceError(
        "{option} {name}: {reason}",
        option=option_of(argument),
        name=name if argument == "device" else typed,
        reason=_missing_gpu_reason(chosen, n_gpus, argument),
    )


def _missing_gpu_reason(name: str, n_gpus: int, argument: str) -> Message:
    """Return why a GPU is missing, and what to do."""
    is_number = argument == "cuda_device"
    cpu = option_named("--cuda-device -1" if is_number else "--device cpu")
    if name == "mps":
        return Message("torch finds no Apple GPU", remedy="Use {cpu}.", cpu=cpu)
    if n_gpus > 0:
        return Message(
            f"torch finds {counted(n_gpus, 'GPU')}, and numbers start at 0",
            remedy="Use a lower number.",
        )
    if torch.version.cuda is None and torch.version.hip is None:
        return Message(
            "torch {version} was built without CUDA",
            remedy="Install a build with CUDA from https://pytorch.org, or use {cpu}.",
            cpu=cpu,
            version=torch.__version__,
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return Message(
            f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no GPU",
            remedy="Change or unset it.",
        )
    return Message(
        "the NVIDIA driver is missing, or too old for CUDA {version}",
        remedy="Install a newer driver or an older torch (`nvidia-smi` shows the CUDA "
        "version of the driver), or use {cpu}.",
        cpu=cpu,
        version=torch.version.cuda,
    )


def compute_into(
    out: Tensor, function: Callable[..., Tensor], *arguments: Any
) -> Tensor:
    """Write the result of a function of torch to `out`, which may be a view.

    Return `out`.
    """
    # On MPS, `out` arguments lose their strides and offsets.
    if out.device.type == "mps":
        return out.copy_(function(*arguments))
    return function(*arguments, out=out)


def copy_rows(out: Tensor, table: Tensor, rows: Tensor) -> None:
    """Copy rows of a table, int64, shape (N,), to `out`, which may be a view."""
    compute_into(out, torch.index_select, table, 0, rows)
