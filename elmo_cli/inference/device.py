"""Devices: the CPU, GPUs of NVIDIA and of Apple."""

import os
import re
from typing import TypeAlias

import torch

from elmo_cli.errors.exceptions import DeviceError, SettingsError
from elmo_cli.errors.wording import counted

Device: TypeAlias = str | int | torch.device
"""Name of a device or number of a GPU; see `choose_device`."""


_SYNONYMS = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device) -> torch.device:
    """Return the device that a name or a number selects. Raise a `DeviceError` if it is missing.

    `cuda` is the first GPU of CUDA, and `auto` too, or else the CPU. -1 is the CPU, N `cuda:N`.
    """
    name = f"cuda:{device}" if str(device).isdecimal() else str(device)
    chosen = _SYNONYMS.get(name, name)
    if (
        chosen == "cpu"
    ):  # To count GPUs starts CUDA, which a process that forks must not do.
        return torch.device(chosen)
    if not re.fullmatch("auto|mps|cuda:[0-9]+", chosen):
        raise SettingsError(
            f"--device {name!r}: unknown. Use auto, cpu, cuda, cuda:N or mps."
        )
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if chosen == "auto":
        return torch.device("cuda:0" if n_gpus else "cpu")
    gpus = [f"cuda:{number}" for number in range(n_gpus)]
    if chosen in gpus or (chosen == "mps" and torch.backends.mps.is_available()):
        return torch.device(chosen)
    raise DeviceError(f"--device {name!r}: {_explain_missing(chosen, n_gpus)}")


def _explain_missing(name: str, n_gpus: int) -> str:
    if name == "mps":
        return "torch finds no Apple GPU. Use --device cpu."
    if n_gpus:
        return f"torch finds {counted(n_gpus, 'GPU')}, and numbers start at 0. Use a lower number."
    if torch.version.cuda is None and torch.version.hip is None:
        remedy = (
            "Install a build with CUDA from https://pytorch.org, or use --device cpu."
        )
        return f"torch {torch.__version__} was built without CUDA. {remedy}"
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no GPU. Change or unset it."
    return (
        f"the NVIDIA driver is missing, or too old for CUDA {torch.version.cuda}. Install a newer "
        "driver or an older torch (`nvidia-smi` shows the CUDA version of the driver), or use "
        "--device cpu."
    )
