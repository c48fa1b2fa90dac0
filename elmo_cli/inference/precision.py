"""Devices and their memory, precisions, and the linear layers that multiply in them.

`compute_types` turns the name of a precision into data types, and `prepare_linear` makes a layer
that multiplies in one of them. Layers in int8 are by oneDNN, for processors with AVX-512 VNNI.
torch has their products under private names only. Many servers have VNNI but no instructions for
bfloat16 (Cascade Lake, Ice Lake): on them, no other lower precision is fast.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.compiled.linear import Linear, make_linear
from elmo_cli.errors.exceptions import (
    InputError,
    SettingsError,
)
from elmo_cli.inference.int8 import Int8Linear, has_int8
from elmo_cli.options.model import Precision

# Threads share the settings of torch, the cores and caches of tokens.
_products_lock = RLock()


def _replace_lock() -> None:
    """Replace the lock in a forked process, where no thread would release it."""
    global _products_lock
    _products_lock = RLock()


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_replace_lock)


@contextmanager
def exact_products(*, tf32: bool = False) -> Iterator[None]:
    """Multiply float32 as float32 or, if `tf32`, as TF32, and restore torch's settings at the end.

    NVIDIA's containers allow TF32. One thread at a time can be in this context.
    """
    with _products_lock:
        before = _set_products(2 * ["tf32" if tf32 else "ieee"])
        try:
            yield
        finally:
            _set_products(before)


def _set_products(settings: Sequence[str]) -> list[str]:
    """Set how GPUs and oneDNN multiply float32, and return the settings until now."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        before, names = (
            torch.get_float32_matmul_precision(),
            {"ieee": "highest", "tf32": "high"},
        )
        torch.set_float32_matmul_precision(names.get(settings[0], settings[0]))
        return [before]
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    old = [product.fp32_precision for product in products]
    for product, setting in zip(products, settings, strict=True):
        product.fp32_precision = setting
    return old


def compute_into(
    out: Tensor, function: Callable[..., Tensor], *arguments: Any
) -> Tensor:
    """Write the result of a function of torch to `out`, which may be a view, and return `out`."""
    if (
        out.device.type == "mps"
    ):  # There, `out` arguments lose their strides and offsets.
        return out.copy_(function(*arguments))
    return function(*arguments, out=out)


class ComputeTypes(NamedTuple):
    """Device and data types in which a biLM computes. Its cells are float32 in every precision."""

    device: torch.device
    values: torch.dtype  # type of token vectors and hidden states
    weights: torch.dtype  # type in which linear layers multiply, except the gates
    gate_weights: torch.dtype  # type in which the linear layers of the gates multiply
    tf32: bool = False  # True if a GPU may round the factors of float32 to TF32


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """Return the data types of a precision. Raise an `InputError` if the device lacks it."""
    if precision == "tf32":
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
            required = (
                "requires an NVIDIA GPU of compute capability 8.0 (Ampere) or later"
            )
            raise InputError(
                f"--precision tf32: {required}, and {device} is none. Use float32."
            )
        return ComputeTypes(
            device, torch.float32, torch.float32, torch.float32, tf32=True
        )
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, dtype)
    if device.type != "cpu":
        raise SettingsError(
            f"--precision int8 requires the CPU, not {device}. Use bfloat16."
        )
    if not has_int8():
        capability = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "--precision int8 requires a processor and a torch with AVX-512 VNNI, not "
            f"{capability} and torch {torch.__version__}. Use float32."
        )
    weights = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, weights, torch.int8)


class RoundedLinear(Linear):
    """Linear layer in a lower precision, with inputs and outputs in float32."""

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        """Wrap a layer that multiplies in `dtype`."""
        self.n_outputs, self._layer, self._dtype = layer.n_outputs, layer, dtype

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        return self._layer(inputs.to(self._dtype)).float()


def prepare_linear(
    weight: Tensor, bias: Tensor | None, dtype: torch.dtype, values: torch.dtype
) -> Linear:
    """Make the fastest linear layer that multiplies in `dtype`, on the device of the weights.

    They are float32, shape (out, in). `values` is the type of inputs and outputs: float32 for int8.
    """
    if dtype == torch.int8:
        return Int8Linear(weight, bias)
    layer = make_linear(weight.to(dtype), None if bias is None else bias.to(dtype))
    return layer if values == dtype else RoundedLinear(layer, dtype)
