"""Precisions: the data types in which a biLM computes."""

from typing import Literal, NamedTuple, get_args

import torch

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.errors import InputError, check_choice
from elmo_cli.inference.linear import has_int8

Precision = Literal["float32", "bfloat16", "float16", "int8"]


class ComputeTypes(NamedTuple):
    """The data types in which a biLM computes, and its device; its cells are float32 always."""

    device: torch.device
    values: torch.dtype
    """Of the token vectors and hidden states."""
    weights: torch.dtype
    """In which linear layers multiply, except those of the gates."""
    gate_weights: torch.dtype
    """In which the linear layers of the gates multiply."""


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """The types of a precision on a device; an `InputError` if it does not have it."""
    check_choice("precision", precision, get_args(Precision))
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, dtype)
    if device.type != "cpu":
        raise InputError(f"precision int8: expected the CPU, found {device}; use float16")
    if not has_int8():
        found = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "precision int8: expected a processor with AVX-512 VNNI and a torch that knows it, "
            f"found {found} and torch {torch.__version__}; use float32"
        )
    weights = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, weights, torch.int8)
