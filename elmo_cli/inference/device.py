"""Devices and their names."""

from typing import TypeAlias

import torch

from elmo_cli.errors import DeviceError

Device: TypeAlias = str | int | torch.device
"""Name of a device or number of a GPU; see `choose_device`."""

_SYNONYMS = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device) -> torch.device:
    """Return the device that a name or a number selects.

    Args:
        device: `cpu`, `cuda:N`, `cuda` (the first GPU), `mps`, or `auto`: a GPU if there is one,
            else the CPU. Or a number: -1 is the CPU, N is `cuda:N`.

    Raises:
        DeviceError: This machine does not have the device.
    """
    name = f"cuda:{device}" if str(device).isdecimal() else str(device)
    available = _list_devices()
    chosen = available[0] if name == "auto" else _SYNONYMS.get(name, name)
    if chosen not in available:
        raise DeviceError(
            f"device {name!r}: expected auto or a device of this machine, found only "
            f"{', '.join(available)}"
        )
    return torch.device(chosen)


def _list_devices() -> list[str]:
    """Return the names of all devices of this machine. The CPU is the last one."""
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*(f"cuda:{number}" for number in range(n_gpus)), *mps, "cpu"]
