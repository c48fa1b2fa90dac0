"""Where values are computed, and in which data type."""

import torch
from torch import Tensor


def send(values: Tensor, device: torch.device) -> Tensor:
    """Move new values to a device.

    Do not wait for CUDA, which copies the memory at once.
    """
    return values.to(device, non_blocking=device.type == "cuda")


def autocast_dtype(values: Tensor) -> torch.dtype:
    """Return the data type of products of these values, under autocast its own."""
    device_type = values.device.type
    # Autocast leaves float64 as it is.
    if torch.is_autocast_enabled(device_type) and values.dtype != torch.float64:
        return torch.get_autocast_dtype(device_type)
    return values.dtype
