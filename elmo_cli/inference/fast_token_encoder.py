"""Token encoder that computes the same values faster."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_cli.compiled.kernels import find_kernel
from elmo_cli.inference.precision import ComputeTypes, prepare_linear
from elmo_cli.model.token_encoder import Convolution, Highway, TokenEncoder

_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to the device, and replace the modules for which there are faster ones."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if replacement := _make_faster(child, types):
                setattr(module, name, replacement)
    return encoder


def _make_faster(module: nn.Module, types: ComputeTypes) -> nn.Module | None:
    """Return a faster module that computes what `module` does, or None."""
    if isinstance(module, nn.Linear):
        return FastLinear(module, types)
    if isinstance(module, Convolution):
        return FastConvolution(module)
    if isinstance(module, Highway) and types.device.type == "cpu":
        return FastHighway(module)
    return (
        FastTanh()
        if isinstance(module, nn.Tanh) and types.device.type == "cpu"
        else None
    )


class FastLinear(nn.Module):
    """Linear layer in a precision, with inputs and outputs in float32."""

    def __init__(self, linear: nn.Linear, types: ComputeTypes) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._layer = prepare_linear(
            linear.weight.detach(), bias, types.weights, _FLOAT
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs)


class FastConvolution(nn.Module):
    """Convolution by one product, in float32 in every precision."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__()
        assert convolution.bias is not None
        weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
        self._convolution = convolution
        self._layer = prepare_linear(weight, bias, _FLOAT, _FLOAT)

    def forward(self, embedded: Tensor) -> Tensor:
        """Convolve; see `Convolution.forward`."""
        windows = self._convolution.windows(embedded)
        return self._layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)


class FastHighway(nn.Module):
    """Highway with its elementwise part in C, if the kernel was compiled."""

    def __init__(self, highway: Highway) -> None:
        super().__init__()
        self._highway = highway

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to float32, shape (N, F); see `Highway.forward`."""
        kernel = find_kernel("highway", int, int, _FLOAT, _FLOAT, _FLOAT, _FLOAT)
        if kernel is None:
            return self._highway.forward(inputs)
        out = torch.empty_like(inputs)
        carry, transform = self._highway.carry(inputs), self._highway.transform(inputs)
        kernel(*inputs.shape, inputs, carry, transform, out)
        return out


class FastTanh(nn.Module):
    """Hyperbolic tangent, in C if the kernel was compiled."""

    def forward(self, values: Tensor) -> Tensor:
        """Overwrite float32, shape (N, F), by its hyperbolic tangent."""
        kernel = find_kernel("tanh_float32", int, int, _FLOAT)
        if kernel is None:
            return values.tanh_()
        kernel(*values.shape, values)
        return values


def _encode(
    encoder: TokenEncoder, types: ComputeTypes, tokens: Sequence[str]
) -> Tensor:
    """Encode N tokens by a prepared encoder: float, shape (N, P)."""
    vectors: Tensor = encoder(encoder.token_ids(tokens).to(types.device))
    return vectors.to(types.values)
