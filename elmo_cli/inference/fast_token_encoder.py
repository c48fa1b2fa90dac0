"""The fast token encoder: the same as the readable one, for inference.

Its parts are replaced by functions of the same meaning. Where there are kernels, the vector of a
token does not depend, to the bit, on the tokens that are encoded with it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from elmo_cli.compiled.kernels import kernel
from elmo_cli.inference.linear import linear
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.model.token_encoder import Convolution, Highway, TokenEncoder

_Function = Callable[[Tensor], Tensor]
_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to its device, and replace the parts that can be faster there."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if function := _faster(child, types):
                setattr(module, name, _Replacement(function))
    return encoder


class _Replacement(nn.Module):
    """A function in the place of a module."""

    def __init__(self, function: _Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self._function(inputs)


def _faster(module: nn.Module, types: ComputeTypes) -> _Function | None:
    """A function that computes what a module does, if there is a faster one."""
    if isinstance(module, nn.Linear):
        bias = None if module.bias is None else module.bias.detach()
        return linear(module.weight.detach(), bias, types.weights, _FLOAT)
    if isinstance(module, Convolution):
        return _convolution(module)
    if isinstance(module, Highway) and types.device.type == "cpu":
        return _highway(module)
    return _tanh() if isinstance(module, nn.Tanh) and types.device.type == "cpu" else None


def _convolution(convolution: Convolution) -> _Function:
    """See `Convolution.forward`; in float32 always."""
    assert convolution.bias is not None
    weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
    layer = linear(weight, bias, _FLOAT, _FLOAT)

    def forward(embedded: Tensor) -> Tensor:
        windows = convolution.windows(embedded)
        return layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)

    return forward


def _highway(highway: Highway) -> _Function | None:
    """See `Highway.forward`; its elementwise part in C."""
    function = kernel("highway", int, int, _FLOAT, _FLOAT, _FLOAT, _FLOAT)
    if function is None:
        return None

    def forward(inputs: Tensor) -> Tensor:
        out = torch.empty_like(inputs)
        function(*inputs.shape, inputs, highway.carry(inputs), highway.transform(inputs), out)
        return out

    return forward


def _tanh() -> _Function | None:
    """Float32, shape (N, F), to the same shape: overwritten."""
    function = kernel("tanh_float32", int, int, _FLOAT)
    if function is None:
        return None

    def forward(values: Tensor) -> Tensor:
        function(*values.shape, values)
        return values

    return forward
