"""Matrix products with constant weights, by the fastest way that there is."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.inference.kernels import address, kernel, processor_has

PRODUCT_ROWS = 256
"""Most rows of a product, of one step or of several that share it: beyond, it gets no faster,
and its result takes memory."""
PACKED_WEIGHTS = {"AVX2": 1 << 20, "AVX512": 1 << 17}
"""Weights of so many values and more are packed, by what the processor has. For fewer the plain
product is as fast or faster, and oneDNN keeps nothing for a number of rows."""
COMPILED_WEIGHTS = 1 << 14
"""The same of the product in C: for fewer values the plain one is as fast."""
ROW_STEPS = {8: 1, 128: 8, PRODUCT_ROWS: 16}
"""oneDNN compiles a product for each number of rows, which takes 1 ms and 0.6 MB. So numbers up to
each of these are rounded up to a multiple, which costs as much time as it saves."""


class ScaledRows(NamedTuple):
    """A product whose rows are yet to be multiplied with their scales."""

    rows: Tensor
    """Float, shape (M, out)."""
    scales: Tensor | None = None
    """Float32, shape (M, 1); None: 1."""
    which: Tensor | None = None
    """The rows that are meant, int64, shape (N,); None: all, in their order."""

    def first(self, n_rows: int) -> "ScaledRows":
        """Only the first rows, of all."""
        scales = None if self.scales is None else self.scales[:n_rows]
        return ScaledRows(self.rows[:n_rows], scales)

    def added_to(self, values: Tensor) -> Tensor:
        """The sum with float, shape (N, out); the rows may be overwritten."""
        rows, scales = self.rows, self.scales
        if self.which is not None:
            rows = rows.index_select(0, self.which)
            scales = None if scales is None else scales.index_select(0, self.which)
        if scales is None:
            return rows.add_(values)
        return torch.addcmul(values, rows, scales, out=rows)


class Product:
    """x W + b for constant weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.contiguous()  # (out, in)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out)."""
        return functional.linear(inputs, self.weight, self.bias)

    def multiply_into(self, out: Tensor, inputs: Tensor) -> None:
        """Write the product of float, shape (N, in), to `out`, float, shape (N, out)."""
        out.copy_(self(inputs))

    def in_room(self, room: Tensor, inputs: Tensor) -> Tensor:
        """The product of float, shape (N, in), in the room if it fits and that saves memory."""
        return self(inputs)

    def unscaled(self, inputs: Tensor) -> ScaledRows:
        """The product of float, shape (N, in), as it comes first; for one without a bias."""
        return ScaledRows(self(inputs))

    def n_rows(self, n_rows: int) -> int:
        """How many rows are multiplied where so many are given: room for more saves a copy."""
        return n_rows


class OneDnnProduct(Product):
    """The same through oneDNN, with weights packed beforehand: on x86 CPUs.

    Measured 1.1 to 4 times as fast as the plain product, the more the fewer the rows
    (`docs/performance.md`). torch offers this layout only under private names.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PRODUCT_ROWS)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out)."""
        n_rows = inputs.shape[0]  # len() of a tensor takes a microsecond, and a step makes many
        if n_rows <= PRODUCT_ROWS:
            return self._multiply(inputs)[:n_rows]
        return torch.cat([self(rows) for rows in torch.split(inputs, PRODUCT_ROWS)])

    def n_rows(self, n_rows: int) -> int:
        """See `Product.n_rows`."""
        return rounded_rows(n_rows)

    def _multiply(self, inputs: Tensor) -> Tensor:
        """At most `PRODUCT_ROWS` rows; there may be more below the result."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            with_rounded_rows(inputs), self.weight, self.bias, "none", [], ""
        )
        return product


class CompiledProduct(Product):
    """The same in C, in float32 and bfloat16. A row does not depend, to the bit, on the others.

    Measured 1.05 to 1.2 times as fast as oneDNN's for many rows, 1.3 to 4 times for few
    (`docs/performance.md`), and any number of rows will do.
    """

    BLOCK = 64
    """Outputs that are computed together, and whose weights lie together."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        n_values = _values_of_a_unit(weight.dtype)
        blocks = weight.reshape(-1, self.BLOCK, weight.shape[1] // n_values, n_values)
        self.weight = blocks.transpose(1, 2).contiguous()  # (out / 64, units, 64, values of one)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out)."""
        out = inputs.new_empty(inputs.shape[0], self.BLOCK * self.weight.shape[0])
        self.multiply_into(out, inputs.contiguous())
        return out

    def in_room(self, room: Tensor, inputs: Tensor) -> Tensor:
        """See `Product.in_room`."""
        if len(inputs) > len(room):
            return self(inputs)
        out = room[: len(inputs)]
        self.multiply_into(out, inputs)
        return out

    def multiply_into(self, out: Tensor, inputs: Tensor) -> None:
        """See `Product.multiply_into`."""
        dtype = self.weight.dtype
        function = product_kernel(dtype)
        assert function is not None
        function(
            *(out.shape[0], inputs.shape[1] // _values_of_a_unit(dtype), out.shape[1]),
            address(inputs, dtype),
            address(self.weight, dtype),
            address(self.bias, dtype),
            address(out, dtype),
        )


def product_kernel(dtype: torch.dtype) -> Callable[..., None] | None:
    """The function in C that multiplies values of this type, if there is one."""
    if dtype == torch.bfloat16 and not processor_has("avx512_bf16"):
        return None
    return kernel(f"product_{dtype}".replace("torch.", ""), "nnnpppp")


def _values_of_a_unit(dtype: torch.dtype) -> int:
    return 4 // dtype.itemsize


@lru_cache  # a step asks several times
def rounded_rows(n_rows: int) -> int:
    """The next number of rows that oneDNN knows."""
    beyond = n_rows // PRODUCT_ROWS * PRODUCT_ROWS
    step = next(step for most, step in ROW_STEPS.items() if n_rows - beyond <= most)
    return n_rows + -n_rows % step


def with_rounded_rows(inputs: Tensor) -> Tensor:
    """At most `PRODUCT_ROWS` rows and, below them, zeros, up to a number that oneDNN knows."""
    missing = rounded_rows(inputs.shape[0]) - inputs.shape[0]
    return functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs


def product(weight: Tensor, bias: Tensor | None = None) -> Product:
    """The fastest product there is for these weights, with the same meaning as any other."""
    if _compiles(weight):
        return CompiledProduct(weight, bias)
    capability = torch.backends.cpu.get_cpu_capability()
    enough = capability in PACKED_WEIGHTS and weight.numel() >= PACKED_WEIGHTS[capability]
    if weight.device.type == "cpu" and enough and _has_onednn():
        if capability == "AVX512" and weight.dtype in _packed_types():
            return OneDnnProduct(weight, bias)
        # With AVX2 and fewer outputs than inputs the plain product is as fast.
        if capability == "AVX2" and weight.dtype == torch.float32 and len(weight) > weight.shape[1]:
            return OneDnnProduct(weight, bias)
    return Product(weight, bias)


def _compiles(weight: Tensor) -> bool:
    """Whether these weights have a product in C."""
    if weight.device.type != "cpu" or product_kernel(weight.dtype) is None:
        return False
    fits = not len(weight) % CompiledProduct.BLOCK and not weight.shape[1] % 2
    return fits and weight.numel() >= COMPILED_WEIGHTS


def _packed_types() -> tuple[torch.dtype, ...]:
    """The types of weights that oneDNN can pack with AVX-512."""
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.float32, torch.bfloat16
    return (torch.float32,)


def _has_onednn() -> bool:
    """Whether this torch has it, with the names that are used here."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


class RoundedProduct(Product):
    """A product of a lower precision for float32: all factors and the result are rounded."""

    def __init__(self, product: Product, dtype: torch.dtype) -> None:
        self._product = product
        self._dtype = dtype

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        return self._product(inputs.to(self._dtype)).float()

    def n_rows(self, n_rows: int) -> int:
        """See `Product.n_rows`."""
        return self._product.n_rows(n_rows)
