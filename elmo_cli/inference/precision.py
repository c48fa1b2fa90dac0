"""Precisions: the data types in which a biLM computes.

Layers in int8 are by oneDNN, for processors with AVX-512 VNNI. Many servers have VNNI
but no instructions for bfloat16 (Cascade Lake, Ice Lake): on them, no other lower
precision is fast.
"""

from typing import Final, NamedTuple

import torch

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.int8 import has_int8
from elmo_cli.options.model import Precision

ROUNDED: Final = "bfloat16 (rounded)"
"""Arithmetic of bfloat16 without instructions for it: float32, with weights that are
rounded to bfloat16. Products in bfloat16 would take three to five times as long."""


def find_arithmetic(precision: Precision, device: torch.device) -> str:
    """Return the name of the arithmetic in which a device computes a precision.

    It is the precision, or `ROUNDED`.
    """
    is_short = precision == "bfloat16" and device.type == "cpu"
    if is_short and not processor_has("avx512_bf16"):
        return ROUNDED
    return precision


class ComputeTypes(NamedTuple):
    """Device and data types in which a biLM computes.

    Its cells are float32 in every precision.
    """

    device: torch.device
    values: torch.dtype
    """Type of token vectors and hidden states."""
    weights: torch.dtype
    """Type in which linear layers multiply, except the gates."""
    gate_weights: torch.dtype
    """Type in which the linear layers of the gates multiply."""
    tf32: bool = False
    """True if a GPU may round the factors of float32 to TF32."""
    rounds_weights: bool = False
    """True if the weights of linear layers are rounded to bfloat16 first."""


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """Return the data types of a precision.

    Raise an `InputError` if the device lacks it.
    """
    if precision == "int8":
        return _int8_types(device)
    if precision == "tf32" and not _has_tf32(device):
        raise InputError(
            "{--precision tf32}: requires an NVIDIA GPU of compute capability "
            "8.0 (Ampere) or later, and the device is {device}",
            remedy="Use {--precision float32}.",
            device=device,
        )
    arithmetic = find_arithmetic(precision, device)
    if arithmetic in ("tf32", ROUNDED):
        dtype = torch.float32
    else:
        dtype = getattr(torch, precision)
    return ComputeTypes(
        device=device,
        values=dtype,
        weights=dtype,
        gate_weights=dtype,
        tf32=arithmetic == "tf32",
        rounds_weights=arithmetic == ROUNDED,
    )


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def _int8_types(device: torch.device) -> ComputeTypes:
    """Return the data types of int8. Raise an `InputError` if the device lacks it."""
    if device.type != "cpu":
        raise SettingsError(
            "{--precision int8}: requires the CPU, and the device is {device}",
            remedy="Use {--precision bfloat16}.",
            device=device,
        )
    if not has_int8():
        raise InputError(
            "{--precision int8}: requires a processor and a torch with AVX-512 "
            "VNNI, found {capability} and torch {version}",
            remedy="Use {--precision float32}.",
            capability=torch.backends.cpu.get_cpu_capability(),
            version=torch.__version__,
        )
    return ComputeTypes(
        device=device,
        values=torch.float32,
        weights=torch.bfloat16 if processor_has("avx512_bf16") else torch.float32,
        gate_weights=torch.int8,
    )
