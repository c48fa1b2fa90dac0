"""Token encoder that computes the same values faster.

With compiled kernels, the bits of a vector do not depend on the tokens that are encoded
with it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_cli.compiled import structures
from elmo_cli.compiled.kernels import has_kernel, run_kernel
from elmo_cli.compiled.structures import address
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.prepared_linear import prepare_linear
from elmo_cli.model.token_encoder import Convolution, HighwayLayer, TokenEncoder

_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to the device, and replace modules by faster ones."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            replacement = _make_faster(child, types)
            if replacement is not None:
                setattr(module, name, replacement)
    return encoder


def _make_faster(module: nn.Module, types: ComputeTypes) -> nn.Module | None:
    """Return a faster module that computes what `module` does, or None."""
    if isinstance(module, nn.Linear):
        return FastLinear(module, types)
    if isinstance(module, Convolution):
        return FastConvolution(module)
    if types.device.type == "cpu":
        if isinstance(module, HighwayLayer):
            return FastHighway(module)
        if isinstance(module, nn.Tanh):
            return FastTanh()
    return None


class FastLinear(nn.Module):
    """Linear layer in a precision, with inputs and outputs in float32."""

    def __init__(self, linear: nn.Linear, types: ComputeTypes) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._layer = prepare_linear(
            linear.weight.detach(), bias=bias, dtype=types.weights, values=_FLOAT
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs)


class FastConvolution(nn.Module):
    """Convolution by one product, in float32 in every precision."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__()
        assert convolution.bias is not None
        weight = convolution.weight.detach().flatten(1)
        self._convolution = convolution
        self._layer = prepare_linear(
            weight, bias=convolution.bias.detach(), dtype=_FLOAT, values=_FLOAT
        )

    def forward(self, embedded: Tensor) -> Tensor:
        """Convolve; see `Convolution.forward`."""
        windows = self._convolution.windows(embedded)
        n_tokens, n_windows = windows.shape[:2]
        values = self._layer(windows.flatten(0, 1))
        return values.view(n_tokens, n_windows, -1)


class FastHighway(nn.Module):
    """Highway with its elementwise part in C, if the kernel was compiled."""

    def __init__(self, highway: HighwayLayer) -> None:
        super().__init__()
        self._highway = highway

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to float32, shape (N, F); see `HighwayLayer.forward`."""
        if not has_kernel("highway"):
            return self._highway.forward(inputs)
        carry = self._highway.carry(inputs)
        transform = self._highway.transform(inputs)
        out = torch.empty_like(inputs)
        n, dim = inputs.shape
        arguments = structures.Highway(
            n=n,
            dim=dim,
            inputs=address(inputs, _FLOAT),
            carry=address(carry, _FLOAT),
            transform=address(transform, _FLOAT),
            out=address(out, _FLOAT),
        )
        run_kernel("highway", arguments)
        return out


class FastTanh(nn.Module):
    """Hyperbolic tangent, in C if the kernel was compiled."""

    def forward(self, values: Tensor) -> Tensor:
        """Overwrite float32, shape (N, F), by its hyperbolic tangent."""
        if not has_kernel("tanh_float32"):
            return values.tanh_()
        n, dim = values.shape
        arguments = structures.Values(n=n, dim=dim, values=address(values, _FLOAT))
        run_kernel("tanh_float32", arguments)
        return values


def encode_tokens(
    encoder: TokenEncoder, types: ComputeTypes, tokens: Sequence[str]
) -> Tensor:
    """Encode N tokens by a prepared encoder: float, shape (N, P)."""
    vectors: Tensor = encoder(encoder.token_ids(tokens).to(types.device))
    return vectors.to(types.values)
