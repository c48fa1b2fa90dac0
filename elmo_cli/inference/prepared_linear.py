"""Linear layers that multiply in a given data type, the fastest for the device."""

import torch
from torch import Tensor, nn

from elmo_cli.compiled.integer_linear import LARGEST, round_to_integers
from elmo_cli.compiled.linear import Linear, make_linear


class RoundedLinear(Linear):
    """Linear layer in a lower precision, with inputs and outputs in float32."""

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        """Wrap a layer that multiplies in `dtype`."""
        self.n_outputs = layer.n_outputs
        self._layer = layer
        self._dtype = dtype

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        return self._layer(inputs.to(self._dtype)).float()


def prepare_linear(
    weight: Tensor, bias: Tensor | None, dtype: torch.dtype, values: torch.dtype
) -> Linear:
    """Make the fastest linear layer that multiplies in a data type.

    Args:
        weight: Weights on the device of the layer, float32, shape (out, in).
        bias: float32, shape (out,), or None.
        dtype: Data type in which it multiplies.
        values: Data type of its inputs and outputs. It is `dtype` or float32, for int8
            and int16 float32.
    """
    if dtype in LARGEST:
        return round_to_integers(weight, bias, dtype)
    layer = make_linear(weight.to(dtype), bias=None if bias is None else bias.to(dtype))
    return layer if values == dtype else RoundedLinear(layer, dtype)


def round_weights(module: nn.Module) -> None:
    """Round the weights of all linear layers in a module to bfloat16, in float32."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = layer.weight.data.bfloat16().float()
