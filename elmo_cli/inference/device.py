"""The number of a GPU to a device of torch."""

import torch

from elmo_cli.errors import DeviceError

CPU_NUMBER = -1


def choose_device(cuda_device: int) -> torch.device:
    """The device for a number: -1 is the CPU, others are GPUs.

    Raises:
        DeviceError: there is no such GPU.
    """
    if cuda_device == CPU_NUMBER:
        return torch.device("cpu")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if 0 <= cuda_device < n_devices:
        return torch.device("cuda", cuda_device)
    found = "none" if n_devices == 0 else f"only 0 to {n_devices - 1}"
    raise DeviceError(
        f"CUDA device {cuda_device}: expected a GPU of that number, found {found}; "
        "leave --cuda out to run on the CPU"
    )
