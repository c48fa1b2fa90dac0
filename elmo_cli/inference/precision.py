"""Precisions: the data types of each, and the linear layers that multiply in them."""

from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.compiled.linear import Linear, make_linear
from elmo_cli.errors import InputError
from elmo_cli.inference.int8 import Int8Linear, has_int8
from elmo_cli.settings import Precision


class ComputeTypes(NamedTuple):
    """Device and data types in which a biLM computes. Its cells are float32 in every precision."""

    device: torch.device
    values: torch.dtype
    """Data type of token vectors and hidden states."""
    weights: torch.dtype
    """Data type in which linear layers multiply, except the gates."""
    gate_weights: torch.dtype
    """Data type in which the linear layers of the gates multiply."""


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """Return the data types of a precision on a device.

    Raises:
        InputError: The device cannot compute in this precision.
    """
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, dtype)
    if device.type != "cpu":
        raise InputError(f"precision int8: expected the CPU, found {device}. Use float16.")
    if not has_int8():
        capability = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "precision int8: expected a processor with AVX-512 VNNI and a torch that supports it, "
            f"found {capability} and torch {torch.__version__}. Use float32."
        )
    weights = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, weights, torch.int8)


class RoundedLinear(Linear):
    """Linear layer in a lower precision, with inputs and outputs in float32."""

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        """Wrap a layer that multiplies in `dtype`."""
        self.n_outputs = layer.n_outputs
        self._layer = layer
        self._dtype = dtype

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs.to(self._dtype)).float()


def prepare_linear(
    weight: Tensor, bias: Tensor | None, dtype: torch.dtype, values: torch.dtype
) -> Linear:
    """Make the fastest linear layer in a precision, on the device of the weights.

    Args:
        weight: float32, shape (out, in).
        bias: float32, shape (out,).
        dtype: Data type in which it multiplies.
        values: Data type of its inputs and outputs: float32 for int8.
    """
    if dtype == torch.int8:
        return Int8Linear(weight, bias)
    layer = make_linear(weight.to(dtype), None if bias is None else bias.to(dtype))
    return layer if values == dtype else RoundedLinear(layer, dtype)
