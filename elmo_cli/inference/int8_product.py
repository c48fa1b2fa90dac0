"""The product with constant weights in int8, for processors with AVX-512 VNNI.

Weights have a scale for each output, inputs one for each row: the largest of their values
becomes 127. Sums are exact.
"""

import torch
from torch import Tensor

from elmo_cli.inference.linear import (
    PRODUCT_ROWS,
    Product,
    ScaledRows,
    rounded_rows,
    with_rounded_rows,
)

_MOST = 127
_ZERO = 128
"""oneDNN's fast product takes inputs without a sign: this is added to them."""
_SMALLEST = 1e-30
"""A scale, so that a row of zeros has one."""


class Int8Product(Product):
    """x W + b, float32 in and out, int8 inside; an error near 1 % for normal values."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.bias = bias
        self._scales = _largest(weight) / _MOST  # (out, 1)
        rounded = (weight / self._scales).round_().to(torch.int8).contiguous()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales = self._scales.flatten()  # (out,)
        self._no_offsets = torch.zeros(len(weight), dtype=torch.int32)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        parts = [self._scaled(part) for part in _parts(inputs)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def unscaled(self, inputs: Tensor) -> ScaledRows:
        """The product of float32, shape (N, in), as it comes first; for one without a bias."""
        if len(inputs) <= PRODUCT_ROWS:
            return ScaledRows(*self._multiply(inputs))
        parts = zip(*map(self._multiply, _parts(inputs)), strict=True)
        return ScaledRows(*map(torch.cat, parts))

    def n_rows(self, n_rows: int) -> int:
        """See `Product.n_rows`."""
        return rounded_rows(n_rows)

    def _scaled(self, inputs: Tensor) -> Tensor:
        """The product of at most `PRODUCT_ROWS` rows, where it came to be."""
        rows, scales = self._multiply(inputs)
        if self.bias is None:
            return rows.mul_(scales)
        return torch.addcmul(self.bias, rows, scales, out=rows)

    def _multiply(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The product of at most `PRODUCT_ROWS` rows, and their scales."""
        n_rows = len(inputs)
        inputs = with_rounded_rows(inputs)
        scales = _largest(inputs) / _MOST  # (N, 1)
        rounded = (inputs / scales).add_(_ZERO + 0.5).to(torch.uint8)  # cut off: so, to the nearest
        rows: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, _ZERO, self.weight, self._scales, self._no_offsets, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return rows[:n_rows], scales[:n_rows]


def sums_are_exact() -> bool:
    """Whether they are: without VNNI, oneDNN cuts the sum of two products off at 16 bits."""
    largest = torch.ones(64, 64)
    return bool((Int8Product(largest)(largest) == 64).all())


def _parts(rows: Tensor) -> tuple[Tensor, ...]:
    return torch.split(rows, PRODUCT_ROWS)


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each row, shape (N, 1)."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(_SMALLEST)
