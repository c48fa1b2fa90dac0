"""Linear layers with constant weights: by torch, or packed for the products in C."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import (
    has_kernel,
    has_tiles,
    multiplies_integers,
    processor_has,
    read_constant,
    run_kernel,
)
from elmo_cli.compiled.structures import NO_SCALES, Product, Scales, Strides, address


class Linear:
    """Linear layer with constant weights, by torch: x W^T + b."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Take weights, shape (out, in), and a bias, shape (out,)."""
        self.n_outputs = len(weight)
        self.weight = weight.contiguous()
        self.bias = bias

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply float, shape (N, in), to float, shape (N, out).

        A layer may write the result to `workspace`, float, shape (m, out), if m is at
        least N.
        """
        return functional.linear(inputs, self.weight, self.bias)

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights, shape (out, in), and the bias."""
        return self.weight, self.bias


class _Panels(NamedTuple):
    """Shape of packed weights: panels of outputs, and units of inputs.

    A unit has 4 bytes: one value of float32, two of bfloat16 or int16, four of int8.
    """

    n_panels: int
    n_units: int
    """Units per panel."""
    panel: int
    """Outputs per panel."""
    unit: int
    """Values per unit."""


class CompiledLinear(Linear):
    """Linear layer in C, in float32 or bfloat16.

    The bits of a row do not depend on other rows.

    It is 1.05 to 4 times as fast as oneDNN, most for few rows (`benchmarks/NOTES.md`).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Pack the weights into panels, in the order in which C reads them.

        The outputs of the weights may have several axes: (..., in).
        """
        n_outputs = weight.shape[:-1].numel()
        n_inputs = weight.shape[-1]
        shape = panels_shape(weight.dtype, n_outputs, n_inputs)
        missing_outputs = shape.n_panels * shape.panel - n_outputs
        missing_inputs = shape.n_units * shape.unit - n_inputs
        if missing_outputs or missing_inputs:
            rows = weight.flatten(0, -2)
            weight = functional.pad(rows, (0, missing_inputs, 0, missing_outputs))
        if bias is not None and missing_outputs:
            bias = functional.pad(bias, (0, missing_outputs))
        panels = _to_panels(weight, shape)
        self._set_up(panels, bias, n_outputs=n_outputs, n_inputs=n_inputs)

    def _set_up(
        self, panels: Tensor, bias: Tensor | None, *, n_outputs: int, n_inputs: int
    ) -> None:
        self.weight = panels  # (panels, units, outputs per panel, values per unit)
        self.bias = bias  # (out,), with zeros to fill the last panel
        self.n_outputs = n_outputs
        self._n_inputs = n_inputs
        self._padding = panels.shape[1] * panels.shape[3] - n_inputs
        self._kernel = product_kernel(panels.dtype)
        if self._kernel is not None:
            self._row_strides = Strides(row=n_outputs, block=gates_block())

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        return self._multiply(inputs, workspace, self._row_strides)

    def multiply_to_blocks(
        self, inputs: Tensor, workspace: Tensor | None = None
    ) -> Tensor:
        """Multiply to blocks of g = `gates_block()` outputs: shape (blocks, N, g)."""
        size = gates_block()
        strides = Strides(row=size, block=size * len(inputs))
        product = self._multiply(inputs, workspace, strides)
        return product.view(-1, len(inputs), size)

    def _multiply(
        self, inputs: Tensor, workspace: Tensor | None, strides: Strides
    ) -> Tensor:
        assert self._kernel is not None
        if self._padding:
            inputs = functional.pad(inputs, (0, self._padding))
        else:
            inputs = inputs.contiguous()
        out = self._output(inputs, workspace)
        dtype = self.weight.dtype
        arguments = Product(
            n=len(inputs),
            n_units=self.weight.shape[1],
            out_dim=self.n_outputs,
            inputs=address(inputs, dtype),
            weights=address(self.weight, dtype),
            bias=address(self.bias, dtype),
            clip=math.inf,
            out=address(out, dtype),
            strides=strides,
            scales=self.scales(None),
        )
        run_kernel(self._kernel, arguments)
        return out

    def _output(self, inputs: Tensor, workspace: Tensor | None) -> Tensor:
        """Return memory for the outputs, (N, out), from a workspace that has enough."""
        n_rows = inputs.shape[0]
        if workspace is None or workspace.shape[0] < n_rows:
            return inputs.new_empty(n_rows, self.n_outputs)
        return workspace[:n_rows]

    def scales(self, rows: Tensor | None) -> Scales:
        """Return what turns sums of whole numbers into values; nothing for floats."""
        return NO_SCALES

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights, shape (out, in), and the bias as before packing."""
        rows = self.weight.transpose(1, 2).flatten(2).flatten(0, 1)
        weight = rows[: self.n_outputs, : self._n_inputs].contiguous()
        bias = None
        if self.bias is not None:
            bias = self.bias[: self.n_outputs].clone()
        return weight, bias

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the panels.

        A temporary copy would be gone before a new process can share it.
        """
        return _from_panels, (self.weight, self.bias, self.n_outputs, self._n_inputs)


def _from_panels(
    panels: Tensor, bias: Tensor | None, n_outputs: int, n_inputs: int
) -> Linear:
    """Return a pickled layer, repacked if this processor needs other panels."""
    layer = CompiledLinear.__new__(CompiledLinear)
    layer._set_up(panels, bias, n_outputs=n_outputs, n_inputs=n_inputs)
    if layer._kernel is not None:
        shape = panels_shape(panels.dtype, n_outputs, n_inputs)
        if tuple(panels.shape) == tuple(shape):
            return layer
    return make_linear(*layer.unpack())


def _to_panels(weight: Tensor, shape: _Panels) -> Tensor:
    """Copy weights, (..., in), to panels, by one copy from any order in memory."""
    # Axes of outputs are those of panels first, and then those within a panel. The one
    # between them may have both.
    n_panels = 1
    axis = 0
    while n_panels * weight.shape[axis] < shape.n_panels:
        n_panels *= weight.shape[axis]
        axis += 1
    of_panels = [*weight.shape[:axis], shape.n_panels // n_panels]
    within_panel = [-1, *weight.shape[axis + 1 : -1]]
    units = weight.reshape(*of_panels, *within_panel, shape.n_units, shape.unit)
    in_order = units.movedim(-2, len(of_panels))
    return in_order.clone(memory_format=torch.contiguous_format).view(shape)


def panels_shape(dtype: torch.dtype, n_outputs: int, n_inputs: int) -> _Panels:
    """Return the shape of the panels for weights, (out, in), of a data type."""
    panel = read_constant("tiles_panel" if _uses_tiles(dtype) else "panel")
    unit = 4 // dtype.itemsize
    # Rows of bfloat16 consist of whole tiles.
    units_at_once = read_constant("tile") if dtype == torch.bfloat16 else 1
    return _Panels(
        n_panels=math.ceil(n_outputs / panel),
        n_units=math.ceil(n_inputs / (unit * units_at_once)) * units_at_once,
        panel=panel,
        unit=unit,
    )


def gates_block() -> int:
    """Return the number of outputs in a block of gates, which C computes together."""
    return 4 * read_constant("block")


def make_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Create the fastest layer for weights of this data type, on their device."""
    if weight.device.type == "cpu" and product_kernel(weight.dtype) is not None:
        return CompiledLinear(weight, bias)
    return Linear(weight, bias)


def product_kernel(dtype: torch.dtype) -> str | None:
    """Return the function in C that multiplies values of a data type, or None."""
    if dtype == torch.bfloat16 and not processor_has("avx512_bf16"):
        return None
    if dtype in (torch.int8, torch.int16) and not multiplies_integers(dtype):
        return None
    name = f"product_{dtype}_tiles" if _uses_tiles(dtype) else f"product_{dtype}"
    return name if has_kernel(name) else None


def _uses_tiles(dtype: torch.dtype) -> bool:
    return dtype == torch.bfloat16 and has_tiles()
