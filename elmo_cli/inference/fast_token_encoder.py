"""The fast token encoder: the same as the readable one, for inference.

Its parts are replaced by modules of the same meaning. Where there are kernels, the vector of a
token does not depend, to the bit, on the tokens that are encoded with it.
"""

import torch
from torch import Tensor, nn

from elmo_cli.compiled.kernels import address, kernel
from elmo_cli.compiled.linear import Linear
from elmo_cli.inference.linear import linear
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.model.token_encoder import Convolution, Highway, TokenEncoder

_HIGHWAY = ("highway", "nnpppp")
_TANH = ("tanh_float32", "nnp")


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to its device, and replace the parts that can be faster there."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            setattr(module, name, _fastest(child, types))
    return encoder


def _fastest(module: nn.Module, types: ComputeTypes) -> nn.Module:
    """A module of the same meaning, or the same one."""
    if isinstance(module, nn.Linear):
        bias = None if module.bias is None else module.bias.detach()
        return LinearModule(linear(module.weight.detach(), bias, types.weights, torch.float32))
    if isinstance(module, Convolution):
        return FastConvolution(module)
    in_c = types.device.type == "cpu" and kernel(*_HIGHWAY) is not None
    if isinstance(module, Highway) and in_c:
        return FastHighway(module)
    return FastTanh() if isinstance(module, nn.Tanh) and in_c else module


class LinearModule(nn.Module):
    """A `Linear` in the place of `nn.Linear`."""

    def __init__(self, layer: Linear) -> None:
        super().__init__()
        self._layer = layer

    def forward(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs)


class FastConvolution(nn.Module):
    """The filters of a `Convolution`, in float32 always."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__()
        self._convolution = convolution
        assert convolution.bias is not None
        weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
        self._layer = linear(weight, bias, torch.float32, torch.float32)

    def forward(self, embedded: Tensor) -> Tensor:
        """See `Convolution.forward`."""
        windows = self._convolution.windows(embedded)
        return self._layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)


class FastHighway(nn.Module):
    """A `Highway` whose elementwise part is in C."""

    def __init__(self, highway: Highway) -> None:
        super().__init__()
        self._highway = highway

    def forward(self, inputs: Tensor) -> Tensor:
        """See `Highway.forward`."""
        function, out = kernel(*_HIGHWAY), torch.empty_like(inputs)
        assert function is not None
        carry, transform = self._highway.carry(inputs), self._highway.transform(inputs)
        tensors = (inputs, carry, transform, out)
        function(*inputs.shape, *(address(values, torch.float32) for values in tensors))
        return out


class FastTanh(nn.Module):
    """`nn.Tanh` in C."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, F), to the same shape: overwritten."""
        function = kernel(*_TANH)
        assert function is not None
        function(*inputs.shape, address(inputs, torch.float32))
        return inputs
