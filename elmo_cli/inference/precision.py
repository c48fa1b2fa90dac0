"""Precisions: the data types in which a biLM computes.

int8 needs VNNI. Many processors have VNNI or AVX2 but no instructions for bfloat16
(Cascade Lake, Ice Lake, Zen 1 to 3). On them, int16 takes the place of bfloat16.
"""

from typing import Final, NamedTuple

import torch

from elmo_cli.compiled.kernels import has_tiles, has_vnni, processor_has
from elmo_cli.compiled.linear import product_kernel
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.options.model import Precision

AS_INT16: Final = "bfloat16 (int16)"
"""Arithmetic of bfloat16 with VNNI or AVX2, but without instructions for bfloat16:
whole numbers up to 2047 with a scale per row. Its errors are smaller than those of
bfloat16."""
ROUNDED: Final = "bfloat16 (rounded)"
"""Arithmetic of bfloat16 without any of them: float32, with weights that are rounded to
bfloat16. Products in bfloat16 would take three to five times as long."""


def find_arithmetic(precision: Precision, device: torch.device) -> str:
    """Return the name of the arithmetic in which a device computes a precision.

    It is the precision, or `AS_INT16` or `ROUNDED`.
    """
    if precision != "bfloat16" or device.type != "cpu":
        return precision
    if processor_has("avx512_bf16"):
        return precision
    return ROUNDED if product_kernel(torch.int16) is None else AS_INT16


def softmax_type(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the data type in which the softmax over a vocabulary multiplies.

    On the CPU, bfloat16 is bfloat16 with AMX. Without AMX, bfloat16 is int16, and so is
    int8 with or without: it adds 0.003 bits to the error of a surprisal, where the
    softmax in int8 would add 0.04. Every other precision is float32.
    """
    if device.type == "cpu":
        if precision == "bfloat16" and has_tiles():
            return torch.bfloat16
        if precision in ("bfloat16", "int8") and product_kernel(torch.int16):
            return torch.int16
    return torch.float32


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
    arithmetic = find_arithmetic(precision, device)
    if arithmetic == "tf32":
        _check_tf32(device)
    if arithmetic == "int8":
        _check_int8(device)
    if arithmetic in ("int8", AS_INT16):
        return ComputeTypes(
            device=device,
            values=torch.float32,
            weights=torch.int16,
            gate_weights=torch.int8 if arithmetic == "int8" else torch.int16,
        )
    dtype = torch.float32
    if arithmetic not in ("tf32", ROUNDED):
        dtype = getattr(torch, arithmetic)
    return ComputeTypes(
        device=device,
        values=dtype,
        weights=dtype,
        gate_weights=dtype,
        tf32=arithmetic == "tf32",
        rounds_weights=arithmetic == ROUNDED,
    )


def _check_tf32(device: torch.device) -> None:
    """Raise an `InputError` if the device lacks tf32."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0):
        return
    raise InputError(
        "{--precision tf32}: requires an NVIDIA GPU of compute capability 8.0 (Ampere) "
        "or later, and the device is {device}",
        remedy="Use {--precision float32}.",
        device=device,
    )


def _check_int8(device: torch.device) -> None:
    """Raise an `InputError` if the device lacks int8."""
    if device.type != "cpu":
        raise SettingsError(
            "{--precision int8}: requires the CPU, and the device is {device}",
            remedy="Use {--precision bfloat16}.",
            device=device,
        )
    if not has_vnni():
        fastest = "bfloat16" if product_kernel(torch.int16) else "float32"
        raise InputError(
            "{--precision int8}: requires a processor with AVX-512 VNNI or AVX-VNNI, "
            "found {capability}",
            remedy=f"Use {{--precision {fastest}}}.",
            capability=torch.backends.cpu.get_cpu_capability(),
        )
    if product_kernel(torch.int8) is None:
        raise InputError(
            Template("{--precision int8}: requires compiled kernels, found none"),
            remedy="Use {--precision float32}, or install with a C compiler.",
        )
