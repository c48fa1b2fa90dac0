"""Linear layers that multiply whole numbers in C: int8 and int16, by VNNI."""

import math
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import run_kernel
from elmo_cli.compiled.linear import CompiledLinear, panels_shape, product_kernel
from elmo_cli.compiled.structures import (
    Product,
    RoundedProduct,
    Rows,
    Scales,
    Strides,
    address,
)
from elmo_cli.errors.exceptions import InputError

LARGEST: Final = {torch.int8: 127, torch.int16: 2047}
"""Largest whole number of each type. More would overflow the sums of int16."""
_ZERO: Final = {torch.int8: 128, torch.int16: 0}
"""What is added to whole numbers of the inputs."""
_FLOAT: Final = torch.float32


class IntegerLinear(CompiledLinear):
    """Linear layer in int8 or int16, with inputs and outputs in float32.

    Weights have a scale per output, inputs one per row. kernels_integers.h describes
    their rounding. The error of a product of normal values is near 1 % in int8, and
    0.07 % in int16.
    """

    def __init__(
        self, rounded: Tensor, scales: Tensor, bias: Tensor | None = None
    ) -> None:
        """Pack whole numbers, int8 or int16, (..., in), and their scales, (...)."""
        super().__init__(rounded, bias)
        offsets = -_ZERO[rounded.dtype] * rounded.sum(dim=-1, dtype=torch.int32)
        n_panels, _, panel, _ = self.weight.shape
        n_missing = n_panels * panel - self.n_outputs
        self._scales = functional.pad(scales.flatten(), (0, n_missing))
        self._offsets = functional.pad(offsets.flatten(), (0, n_missing))

    def scales(self, rows: Tensor | None) -> Scales:
        """Return the scales for C, with memory for those of rows, (N,)."""
        return Scales(
            offsets=address(self._offsets, torch.int32),
            outputs=address(self._scales, _FLOAT),
            rows=address(rows, _FLOAT),
        )

    def _multiply(
        self, inputs: Tensor, workspace: Tensor | None, strides: Strides
    ) -> Tensor:
        assert self._kernel is not None
        inputs = inputs.contiguous()
        n_rows, n_inputs = inputs.shape
        n_units = self.weight.shape[1]
        out = self._output(inputs, workspace)
        units = inputs.new_empty(n_rows, n_units)
        row_scales = inputs.new_empty(n_rows)
        rows = Rows(
            n=n_rows,
            dim=n_inputs,
            n_units=n_units,
            values=address(inputs, _FLOAT),
            indices=None,
            units=address(units, _FLOAT),
            scales=address(row_scales, _FLOAT),
        )
        product = Product(
            n=n_rows,
            n_units=n_units,
            out_dim=self.n_outputs,
            inputs=address(units, _FLOAT),
            weights=address(self.weight, self.weight.dtype),
            bias=address(self.bias, _FLOAT),
            clip=math.inf,
            out=address(out, _FLOAT),
            strides=strides,
            scales=self.scales(row_scales),
        )
        run_kernel(self._kernel, RoundedProduct(rows=rows, product=product))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the panels; see `CompiledLinear.__reduce__`.

        Arrays are copied: a new process can share 256 tensors at most.
        """
        arguments = (
            self.weight,
            self._scales.numpy(),
            self._offsets.numpy(),
            self.bias,
            self.n_outputs,
            self._n_inputs,
        )
        return _integers_from_panels, arguments


def round_to_integers(
    weight: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> IntegerLinear:
    """Make a layer of a type from weights, float32, shape (..., in), and a bias."""
    # A scale must not be 0, because it is a divisor.
    largest = weight.abs().amax(dim=-1).clamp_min_(1e-30)
    scales = largest / LARGEST[dtype]
    rounded = (weight / scales[..., None]).round_().to(dtype)
    return IntegerLinear(rounded, scales, bias)


def _integers_from_panels(
    panels: Tensor,
    scales: NDArray[np.float32],
    offsets: NDArray[np.int32],
    bias: Tensor | None,
    n_outputs: int,
    n_inputs: int,
) -> IntegerLinear:
    """Return a pickled layer, repacked if this processor needs other panels."""
    if product_kernel(panels.dtype) is None:
        raise InputError(
            "a model in int8 or bfloat16 (int16) requires a processor with VNNI and "
            "compiled kernels, and this one has {capability}",
            remedy="Load it with another precision.",
            capability=torch.backends.cpu.get_cpu_capability(),
        )
    layer = IntegerLinear.__new__(IntegerLinear)
    layer._set_up(panels, bias, n_outputs=n_outputs, n_inputs=n_inputs)
    if tuple(panels.shape) != tuple(panels_shape(panels.dtype, n_outputs, n_inputs)):
        rounded, bias = layer.unpack()
        return IntegerLinear(rounded, torch.from_numpy(scales[:n_outputs]), bias)
    layer._scales = torch.from_numpy(scales)
    layer._offsets = torch.from_numpy(offsets)
    return layer
