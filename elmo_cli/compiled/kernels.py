"""The functions of `kernels.c`, where they were compiled for this processor; linear layers."""

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
