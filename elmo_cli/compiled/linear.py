"""Linear layers whose weights are packed for the C kernels."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import (
    Kernel,
    find_kernel,
    has_tiles,
    processor_has,
    read_constant,
)


class Linear:
    """Linear layer with constant weights, by torch: x W^T + b."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Take weights, shape (out, in), and a bias, shape (out,)."""
        self.n_outputs = len(weight)
        self.weight = weight.contiguous()
        self.bias = bias

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply float, shape (N, in), to float, shape (N, out).

        A layer may write the result to `workspace`, float, shape (m, out), if m is at least N.
        """
        return functional.linear(inputs, self.weight, self.bias)

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights, shape (out, in), and the bias."""
        return self.weight, self.bias


class CompiledLinear(Linear):
    """Linear layer in C, in float32 or bfloat16. The bits of a row do not depend on other rows.

    It is 1.05 to 4 times as fast as oneDNN, most for few rows (`benchmarks/NOTES.md`).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Pack the weights into panels, in the order in which C reads them."""
        n_outputs, n_inputs = weight.shape
        n_panels, n_units, panel, unit = _panels_shape(
            weight.dtype, n_outputs, n_inputs
        )
        missing, padding = n_panels * panel - n_outputs, n_units * unit - n_inputs
        if missing or padding:
            weight = functional.pad(weight, (0, padding, 0, missing))
        units = weight.contiguous().view(torch.float32).view(n_panels, panel, n_units)
        panels = units.transpose(1, 2).contiguous().view(weight.dtype)
        panels = panels.view(n_panels, n_units, panel, unit)
        padded = (
            functional.pad(bias, (0, missing)) if bias is not None and missing else bias
        )
        self._set_up(panels, padded, n_outputs, n_inputs)

    def _set_up(
        self, panels: Tensor, bias: Tensor | None, n_outputs: int, n_inputs: int
    ) -> None:
        self.weight, self.bias = (
            panels,
            bias,
        )  # (panels, units, panel, values per unit), (out,)
        self.n_outputs, self._n_inputs = n_outputs, n_inputs
        self._padding = panels.shape[1] * panels.shape[3] - n_inputs
        self._product = find_product(panels.dtype)

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        return self._multiply(inputs, workspace, self.n_outputs, gates_block())

    def multiply_to_blocks(
        self, inputs: Tensor, workspace: Tensor | None = None
    ) -> Tensor:
        """Multiply to blocks of g = `gates_block()` outputs: float, shape (blocks, N, g)."""
        size = gates_block()
        product = self._multiply(inputs, workspace, size, size * len(inputs))
        return product.view(-1, len(inputs), size)

    def _multiply(
        self, inputs: Tensor, workspace: Tensor | None, *strides: int
    ) -> Tensor:
        assert self._product is not None
        padding = (0, self._padding)
        inputs = (
            functional.pad(inputs, padding) if self._padding else inputs.contiguous()
        )
        n_rows = len(inputs)
        if workspace is None or len(workspace) < n_rows:
            workspace = inputs.new_empty(n_rows, self.n_outputs)
        out, n_units = workspace[:n_rows], self.weight.shape[1]
        rest = self.weight, self.bias, math.inf, out, *strides
        self._product(n_rows, n_units, self.n_outputs, inputs, *rest)
        return out

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights, shape (out, in), and the bias as they were before packing."""
        rows = self.weight.transpose(1, 2).flatten(2).flatten(0, 1)
        weight = rows[: self.n_outputs, : self._n_inputs].contiguous()
        return weight, None if self.bias is None else self.bias[
            : self.n_outputs
        ].clone()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the panels. A temporary copy would be gone before a new process can share it."""
        return _from_panels, (self.weight, self.bias, self.n_outputs, self._n_inputs)


def _from_panels(
    panels: Tensor, bias: Tensor | None, n_outputs: int, n_inputs: int
) -> Linear:
    """Return a pickled layer, repacked if this processor has other panels, or no library."""
    layer = CompiledLinear.__new__(CompiledLinear)
    layer._set_up(panels, bias, n_outputs, n_inputs)
    shape = layer._product and _panels_shape(panels.dtype, n_outputs, n_inputs)
    return layer if panels.shape == shape else make_linear(*layer.unpack())


def _panels_shape(
    dtype: torch.dtype, n_outputs: int, n_inputs: int
) -> tuple[int, int, int, int]:
    """Return the numbers of panels, of units per panel, and of rows and values per unit."""
    panel = read_constant("tiles_panel" if _uses_tiles(dtype) else "panel")
    unit = 4 // dtype.itemsize
    tile = 1 if dtype == torch.float32 else read_constant("tile")
    return -(-n_outputs // panel), -(-n_inputs // (unit * tile)) * tile, panel, unit


def gates_block() -> int:
    """Return the number of outputs in a block: values of all four gates, computed together in C."""
    return 4 * read_constant("block")


def make_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Create the fastest layer for weights of this data type, on their device."""
    is_compiled = weight.device.type == "cpu" and find_product(weight.dtype) is not None
    return (CompiledLinear if is_compiled else Linear)(weight, bias)


def find_product(dtype: torch.dtype) -> Kernel | None:
    """Return the function in C that multiplies values of a data type, or None."""
    if dtype == torch.bfloat16 and not processor_has("avx512_bf16"):
        return None
    name = f"product_{dtype}_tiles" if _uses_tiles(dtype) else f"product_{dtype}"
    return find_kernel(name, int, int, int, dtype, dtype, dtype, float, dtype, int, int)


def _uses_tiles(dtype: torch.dtype) -> bool:
    return dtype == torch.bfloat16 and has_tiles()
