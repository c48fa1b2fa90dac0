"""The product with constant weights in int8, for processors with AVX-512 VNNI.

Weights have a scale for each output, inputs one for each row: the largest of their values
becomes 127. Sums are exact.
"""

import torch
from torch import Tensor

from elmo_cli.products import OneDnnProduct, parts, with_rounded_rows

_MOST = 127
_ZERO = 128
"""oneDNN's fast product takes inputs without a sign: this is added to them."""
_SMALLEST = 1e-30
"""A scale, so that a row of zeros has one."""


class Int8Product(OneDnnProduct):
    """x W + b, float32 in and out, int8 inside; an error near 1 % for normal values."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.n_outputs = len(weight)
        self.bias = bias
        self._scales = _largest(weight) / _MOST  # (out, 1)
        rounded = (weight / self._scales).round_().to(torch.int8).contiguous()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales = self._scales.flatten()  # (out,)
        self._no_offsets = torch.zeros(self.n_outputs, dtype=torch.int32)

    def add_to(self, out: Tensor, inputs: Tensor) -> Tensor:
        """The product added to `out`, float32, shape (N, out), in place."""
        for part, rows in parts(out, inputs):
            unscaled, scales = self._multiply_rounded(rows)
            part.addcmul_(unscaled[: len(rows)], scales[: len(rows)])
        return out if self.bias is None else out.add_(self.bias)

    def _multiply(self, inputs: Tensor) -> Tensor:
        unscaled, scales = self._multiply_rounded(inputs)
        if self.bias is None:
            return unscaled.mul_(scales)
        return torch.addcmul(self.bias, unscaled, scales)

    def _multiply_rounded(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Float32, shape (N, in), to the product of rounded rows, (N, out), and their scales."""
        inputs = with_rounded_rows(inputs)
        scales = _largest(inputs) / _MOST  # (N, 1)
        rounded = (inputs / scales).add_(_ZERO + 0.5).to(torch.uint8)  # cut off: so, to the nearest
        unscaled: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, _ZERO, self.weight, self._scales, self._no_offsets, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return unscaled, scales


def sums_are_exact() -> bool:
    """Whether they are: without VNNI, oneDNN cuts the sum of two products off at 16 bits."""
    largest = torch.ones(64, 64)
    return bool((Int8Product(largest)(largest) == 64).all())


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each row, shape (N, 1)."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(_SMALLEST)
