"""Linear layers that multiply whole numbers in C: int8 and int16."""

import math
from typing import Any, Final, NamedTuple

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
_PART: Final = 1 << 18
"""Weights that are rounded together, in a core's cache: it takes half the time."""


class RoundedWeight(NamedTuple):
    """Weights that were rounded to whole numbers, with a scale per output."""

    whole: Tensor
    """int8 or int16, shape (..., in)."""
    scales: Tensor
    """float32, shape (...)."""
    sums: Tensor
    """Sum of the whole numbers of each output, float32, shape (...). In int8, they are
    exact for up to 132,000 inputs; in int16, they are not used."""


class RowMemory:
    """Rows of inputs, and memory for the whole numbers to which C rounds them."""

    def __init__(self, inputs: Tensor, n_units: int) -> None:
        """Take inputs, float32, shape (N, in)."""
        n_rows = len(inputs)
        self._inputs = inputs.contiguous()
        self.units = inputs.new_empty(n_rows, n_units)
        """Whole numbers, 4 bytes per unit, shape (N, units)."""
        self.scales = inputs.new_empty(n_rows)
        """Scale of each row, float32, shape (N,)."""

    def arguments(self) -> Rows:
        """Return the addresses for C."""
        n_rows, n_inputs = self._inputs.shape
        return Rows(
            n=n_rows,
            dim=n_inputs,
            n_units=self.units.shape[1],
            values=address(self._inputs, _FLOAT),
            indices=None,
            units=address(self.units, _FLOAT),
            scales=address(self.scales, _FLOAT),
        )


class IntegerLinear(CompiledLinear):
    """Linear layer in int8 or int16, with inputs and outputs in float32.

    Weights have a scale per output, inputs one per row. kernels_integers.h describes
    their rounding. The error of a product of normal values is near 1 % in int8, and
    0.07 % in int16.
    """

    def __init__(self, weight: RoundedWeight, bias: Tensor | None = None) -> None:
        """Pack the weights."""
        super().__init__(weight.whole, bias)
        n_panels, _, panel, _ = self.weight.shape
        missing = (0, n_panels * panel - self.n_outputs)
        offsets = weight.sums.flatten() * -_ZERO[weight.whole.dtype]
        self._scales = functional.pad(weight.scales.flatten(), missing)
        self._offsets = functional.pad(offsets, missing).to(torch.int32)

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
        n_units = self.weight.shape[1]
        out = self._output(inputs, workspace)
        rows = RowMemory(inputs, n_units)
        product = Product(
            n=len(inputs),
            n_units=n_units,
            out_dim=self.n_outputs,
            inputs=address(rows.units, _FLOAT),
            weights=address(self.weight, self.weight.dtype),
            bias=address(self.bias, _FLOAT),
            clip=math.inf,
            out=address(out, _FLOAT),
            strides=strides,
            scales=self.scales(rows.scales),
        )
        arguments = RoundedProduct(rows=rows.arguments(), product=product)
        run_kernel(self._kernel, arguments)
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
    n_at_once = max(1, _PART // weight[0].numel())
    parts = [_round(part, dtype) for part in torch.split(weight, n_at_once)]
    rounded = RoundedWeight(
        whole=torch.cat([part.whole for part in parts]),
        scales=torch.cat([part.scales for part in parts]),
        sums=torch.cat([part.sums for part in parts]),
    )
    return IntegerLinear(rounded, bias)


def _round(weight: Tensor, dtype: torch.dtype) -> RoundedWeight:
    weight = weight.contiguous()
    largest = torch.maximum(weight.amax(dim=-1), -weight.amin(dim=-1))
    # A scale must not be 0, because it is a divisor.
    scales = largest.clamp_min(1e-30) / LARGEST[dtype]
    whole = (weight / scales[..., None]).round_()
    return RoundedWeight(whole.to(dtype), scales, sums=whole.sum(dim=-1))


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
            "a model in int8 or bfloat16 (int16) requires compiled kernels and a "
            "processor with VNNI, or AVX2 for int16, and this one has {capability}",
            remedy="Load it with another precision.",
            capability=torch.backends.cpu.get_cpu_capability(),
        )
    layer = IntegerLinear.__new__(IntegerLinear)
    layer._set_up(panels, bias, n_outputs=n_outputs, n_inputs=n_inputs)
    if tuple(panels.shape) != tuple(panels_shape(panels.dtype, n_outputs, n_inputs)):
        whole, bias = layer.unpack()
        weight = RoundedWeight(
            whole=whole,
            scales=torch.from_numpy(scales[:n_outputs]),
            sums=whole.sum(dim=1).float(),
        )
        return IntegerLinear(weight, bias)
    layer._scales = torch.from_numpy(scales)
    layer._offsets = torch.from_numpy(offsets)
    return layer
