"""The functions of `kernels.c`, where they were compiled for this processor.

And linear layers with constant weights, by the fastest way that there is.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_SOURCE = Path(__file__).with_suffix(".c")
_NUMBERS: dict[Any, Any] = {int: ctypes.c_int64, float: ctypes.c_double}


def kernel(name: str, *types: type | torch.dtype) -> Callable[..., None] | None:
    """A function by its name, if there is one; it runs on all threads of torch.

    Args:
        name: in the source; data types in it may be spelled as torch does.
        types: of its arguments: int, float, or the data type of a tensor, which may be None.
    """
    processor = torch.backends.cpu.get_cpu_capability()
    return _function(name.replace("torch.", ""), types, processor)


def kernel_constant(name: str) -> int:
    """A number that the source has under a name; there must be kernels."""
    library = _library(torch.backends.cpu.get_cpu_capability())
    assert library is not None
    return ctypes.c_int64.in_dll(library, name).value


def processor_has(instructions: str) -> bool:
    """Whether torch says so: of "avx512_bf16", "vnni" and such, if it knows them."""
    function = getattr(torch.cpu, f"_is_{instructions}_supported", None)
    return function is not None and bool(function())


@cache
def _function(
    name: str, types: tuple[type | torch.dtype, ...], processor: str
) -> Callable[..., None] | None:
    library = _library(processor)
    if library is None or not hasattr(library, name):
        return None
    work = ctypes.cast(getattr(library, name), ctypes.c_void_p)
    fields = [(f"field{i}", _NUMBERS.get(each, ctypes.c_void_p)) for i, each in enumerate(types)]
    structure = type(name, (ctypes.Structure,), {"_fields_": fields})
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(("run", library))
    return lambda *values: run(work, ctypes.byref(structure(*map(_in_c, values, types))))


def _in_c(value: Any, kind: type | torch.dtype) -> Any:
    """A number, or where the first value of a tensor lies: C reads on from there."""
    if value is None or kind is int or kind is float:
        return value
    if value.dtype != kind or not value.is_contiguous():
        raise ValueError(
            f"expected {kind} in order in memory, found {value.dtype}, strides {value.stride()}"
        )
    return value.data_ptr()


@cache
def _library(processor: str) -> ctypes.CDLL | None:
    """What `hatch_build.py` has made of the source for a kind of processor."""
    try:
        files = sorted(_SOURCE.parent.glob("kernels*.[ch]"))
        digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
        # The wheels of torch for ARM keep their OpenMP to themselves.
        for openmp in Path(torch.__file__).parents[1].glob("torch.libs/libgomp*"):
            ctypes.CDLL(str(openmp), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(_SOURCE.with_suffix(f".{digest}.{processor}.so")))
    except OSError:  # not made, or this torch has another OpenMP
        return None


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
        tile = 1 if weight.dtype == torch.float32 else kernel_constant("tile")
        missing, self._odd = -len(weight) % panel, -weight.shape[1] % (n_values * tile)
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
    """The function in C that multiplies values of this type, if there is one."""
    if dtype == torch.bfloat16 and not processor_has("avx512_bf16"):
        return None
    tiles = "_tiles" if dtype == torch.bfloat16 and _has_tiles() else ""
    return kernel(f"product_{dtype}{tiles}", int, int, int, dtype, dtype, dtype, dtype)


@cache
def _has_tiles() -> bool:
    """Whether the processor has AMX and this process may use it, which it has to ask for."""
    return processor_has("amx_tile") and bool(torch.cpu._init_amx())


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
