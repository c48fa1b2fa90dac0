"""Linear layers that compute in int8, on processors with AVX-512 VNNI.

The products are oneDNN's, which torch has under private names only.
"""

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.compiled.linear import Linear
from elmo_cli.errors.exceptions import InputError

_LARGEST: Final = 127
_ZERO: Final = 128
"""Value for 0 in the inputs: oneDNN's fast product takes unsigned inputs."""
# A product of more rows is no faster, and its result takes more memory.
_MAX_ROWS: Final = 256
_ROW_STEPS: Final = {8: 1, 128: 8, _MAX_ROWS: 16}
"""Numbers of rows up to each key are rounded up to a multiple of the value.

oneDNN compiles a product for each number of rows, which takes 1 ms and 0.6 MB. Rounding
up saves as much time as it costs."""


class Int8Linear(Linear):
    """Linear layer in int8, with inputs and outputs in float32.

    The error is near 1 % for normal values. Weights have a scale per output, inputs one
    per row: the largest value is 127. Sums are exact.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Round and pack the weights."""
        self.n_outputs = len(weight)
        self.bias = bias
        scales = _find_largest(weight) / _LARGEST  # (out, 1)
        rounded = (weight / scales).round_().to(torch.int8).contiguous()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales = scales.flatten()  # (out,)
        self._no_offsets = torch.zeros(len(weight), dtype=torch.int32, device="cpu")

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        products = []
        for rows in torch.split(inputs, _MAX_ROWS):
            product = self._multiply(_pad_rows(rows))
            products.append(product[: len(rows)])
        return products[0] if len(products) == 1 else torch.cat(products)

    def _multiply(self, inputs: Tensor) -> Tensor:
        scales = _find_largest(inputs) / _LARGEST  # (N, 1)
        # The conversion truncates: with 0.5 added it rounds to the nearest number.
        rounded = (inputs / scales).add_(_ZERO + 0.5).to(torch.uint8)
        # By position, because the names of these parameters change with torch.
        rows: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded,
            1.0,  # scale of the inputs
            _ZERO,  # and their offset
            self.weight,
            self._scales,
            self._no_offsets,
            None,  # bias
            1.0,  # scale of the result
            0,  # and its offset
            torch.float32,
            "none",  # no function after the product
            [],
            "",
        )
        if self.bias is None:
            return rows.mul_(scales)
        return torch.addcmul(self.bias, rows, scales, out=rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with weights as an array: oneDNN's layout has no pickle."""
        weight = self.weight.to_dense().t().contiguous()
        return {**vars(self), "weight": weight.numpy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pack the rounded weights again, if this processor can multiply them."""
        if not has_int8():
            capability = torch.backends.cpu.get_cpu_capability()
            raise InputError(
                "a model in int8 requires a processor with AVX-512 VNNI, and this "
                f"one has {capability}",
                remedy="Load it with another precision.",
            )
        vars(self).update(state)
        weight = torch.tensor(state["weight"], device="cpu")
        self.weight = torch.ops.onednn.qlinear_prepack(weight, None)


def has_int8() -> bool:
    """Return whether this processor and torch can multiply in int8 with exact sums."""
    if not (processor_has("vnni") and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        return False
    # Without VNNI, oneDNN limits sums of two products to 16 bits.
    largest = torch.ones(64, 64, device="cpu")
    return bool((Int8Linear(largest)(largest) == 64).all())


def _pad_rows(inputs: Tensor) -> Tensor:
    """Add rows of zeros to at most `_MAX_ROWS` rows; see `_ROW_STEPS`."""
    n_rows = len(inputs)
    step = next(step for largest, step in _ROW_STEPS.items() if n_rows <= largest)
    n_missing = -n_rows % step
    if n_missing == 0:
        return inputs
    return functional.pad(inputs, (0, 0, 0, n_missing))


def _find_largest(rows: Tensor) -> Tensor:
    """Return the largest absolute value per row, shape (N, 1).

    It is at least 1e-30, because it is a divisor.
    """
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-30)
