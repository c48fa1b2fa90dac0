"""Products with constant weights, in C."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import kernel, kernel_constant, processor_has


class Linear:
    """x W^T + b for constant weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.n_outputs = len(weight)
        self.weight = weight.contiguous()  # (out, in)
        self.bias = bias

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out).

        Args:
            workspace: memory for the result, float, shape (m, out), used if m is enough and it
                saves an allocation.
        """
        return functional.linear(inputs, self.weight, self.bias)


class CompiledLinear(Linear):
    """The same in C, in float32 and bfloat16. A row does not depend, to the bit, on the others.

    Measured 1.05 to 1.2 times as fast as oneDNN's for many rows, 1.3 to 4 times for few
    (`docs/performance.md`), and any number of rows will do.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.n_outputs = len(weight)
        panel, n_values = kernel_constant("panel"), 4 // weight.dtype.itemsize
        missing = -len(weight) % panel
        self._odd = weight.shape[1] % n_values
        if missing or self._odd:
            weight = functional.pad(weight, (0, self._odd, 0, missing))
        panels = weight.reshape(-1, panel, weight.shape[1] // n_values, n_values)
        self.weight = panels.transpose(1, 2).contiguous()  # (panels, units, panel, values a unit)
        self.bias = functional.pad(bias, (0, missing)) if bias is not None and missing else bias
        self._multiply = linear_kernel(weight.dtype)

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """See `Linear.__call__`."""
        assert self._multiply is not None
        inputs = functional.pad(inputs, (0, self._odd)) if self._odd else inputs.contiguous()
        n_rows = len(inputs)
        if workspace is None or len(workspace) < n_rows:
            workspace = inputs.new_empty(n_rows, self.n_outputs)
        out, n_units = workspace[:n_rows], self.weight.shape[1]
        self._multiply(n_rows, n_units, self.n_outputs, inputs, self.weight, self.bias, out)
        return out


def linear_kernel(dtype: torch.dtype) -> Callable[..., None] | None:
    """The function in C that multiplies values of this type, if there is one.

    Where the processor has AMX, oneDNN is 5 times as fast in bfloat16.
    """
    has_bfloat16 = processor_has("avx512_bf16") and not processor_has("amx_tile")
    if dtype == torch.bfloat16 and not has_bfloat16:
        return None
    return kernel(f"product_{dtype}", int, int, int, dtype, dtype, dtype, dtype)
