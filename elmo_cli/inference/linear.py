"""Linear layers with constant weights, by the fastest way that there is."""

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import CompiledLinear, Linear, linear_kernel, processor_has

MAX_ROWS = 256
"""Rows of one matrix product, of one step or of several that share it: beyond, it gets no faster,
and its result takes memory."""
MIN_PACKED_WEIGHTS = 1 << 17
"""Weights with fewer values are not packed for oneDNN: the plain product is as fast."""
ROW_STEPS = {8: 1, 128: 8, MAX_ROWS: 16}
"""oneDNN compiles a product for each number of rows, which takes 1 ms and 0.6 MB. So numbers up to
each of these are rounded up to a multiple, which costs as much time as it saves."""


class OneDnnLinear(Linear):
    """The same through oneDNN, with weights packed beforehand: on x86 CPUs.

    Measured 1.1 to 4 times as fast as the plain product, the more the fewer the rows
    (`docs/performance.md`). torch offers this layout only under private names.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.n_outputs = len(weight)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), MAX_ROWS)
        self.bias = bias

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """See `Linear.__call__`."""
        chunks = torch.split(inputs, MAX_ROWS)
        products = [self._multiply(_pad_rows(rows))[: len(rows)] for rows in chunks]
        return products[0] if len(products) == 1 else torch.cat(products)

    def _multiply(self, inputs: Tensor) -> Tensor:
        """At most `MAX_ROWS` rows, of a number that oneDNN knows."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self.weight, self.bias, "none", [], ""
        )
        return product


class Int8Linear(OneDnnLinear):
    """The same in int8, float32 in and out; an error near 1 % for normal values.

    Weights have a scale for each output, inputs one for each row: the largest of their values
    becomes 127. Sums are exact. For processors with AVX-512 VNNI.
    """

    LARGEST = 127
    ZERO = 128
    """oneDNN's fast product takes inputs without a sign: this is added to them."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.n_outputs, self.bias = len(weight), bias
        scales = _largest(weight) / self.LARGEST  # (out, 1)
        rounded = (weight / scales).round_().to(torch.int8).contiguous()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales = scales.flatten()  # (out,)
        self._no_offsets = torch.zeros(len(weight), dtype=torch.int32)

    def _multiply(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        scales = _largest(inputs) / self.LARGEST  # (N, 1)
        # Converting cuts off: so, it rounds to the nearest.
        rounded = (inputs / scales).add_(self.ZERO + 0.5).to(torch.uint8)
        rows: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, self.ZERO, self.weight, self._scales, self._no_offsets, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        if self.bias is None:
            return rows.mul_(scales)
        return torch.addcmul(self.bias, rows, scales, out=rows)


class RoundedLinear(Linear):
    """A linear layer of a lower precision for float32 in and out."""

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        self.n_outputs = layer.n_outputs
        self._layer = layer
        self._dtype = dtype

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs.to(self._dtype)).float()


def linear(weight: Tensor, bias: Tensor | None, dtype: torch.dtype, values: torch.dtype) -> Linear:
    """The fastest linear layer for float32 weights, on the device where they are.

    It multiplies in `dtype`; its inputs and outputs are of type `values`: float32 for int8.
    """
    if dtype == torch.int8:
        return Int8Linear(weight, bias)
    bias = None if bias is None else bias.to(dtype)
    layer = _fastest(weight.to(dtype), bias)
    return layer if values == dtype else RoundedLinear(layer, dtype)


def has_int8() -> bool:
    """Whether this processor and this torch can multiply in int8, with exact sums."""
    if not (processor_has("vnni") and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        return False
    largest = torch.ones(64, 64)  # without VNNI, oneDNN cuts sums of two products off at 16 bits
    return bool((Int8Linear(largest)(largest) == 64).all())


def _pad_rows(inputs: Tensor) -> Tensor:
    """At most `MAX_ROWS` rows and, below them, zeros, up to a number that oneDNN knows."""
    step = next(step for largest, step in ROW_STEPS.items() if len(inputs) <= largest)
    missing = -len(inputs) % step
    return functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs


def _fastest(weight: Tensor, bias: Tensor | None) -> Linear:
    if weight.device.type == "cpu" and linear_kernel(weight.dtype) is not None:
        return CompiledLinear(weight, bias)
    return (OneDnnLinear if _packs(weight) else Linear)(weight, bias)


def _packs(weight: Tensor) -> bool:
    """Whether oneDNN can pack these weights, and is faster then."""
    if weight.device.type != "cpu" or weight.numel() < MIN_PACKED_WEIGHTS:
        return False
    capability = torch.backends.cpu.get_cpu_capability()
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    if weight.dtype == torch.bfloat16:
        return capability == "AVX512" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    # With many inputs the plain product is as fast, and its sums lose half as much.
    widens = len(weight) > weight.shape[1]
    return capability in ("AVX2", "AVX512") and weight.dtype == torch.float32 and widens


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each row, shape (N, 1); not 0, so that zeros have a scale."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-30)
