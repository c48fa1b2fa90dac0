"""The functions of `kernels.c` for the processor at hand, where they were compiled."""

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_SOURCE = Path(__file__).with_suffix(".c")
_TYPES: dict[str, Any] = {"n": ctypes.c_int64, "f": ctypes.c_double, "p": ctypes.c_void_p}


def kernel(name: str, arguments: str) -> Callable[..., None] | None:
    """A function by its name, if there is one; it runs on all threads of torch.

    Args:
        arguments: a letter for each: a number (n), a float (f) or a place in memory (p).
    """
    return _function(name, arguments, torch.backends.cpu.get_cpu_capability())


def kernel_for(values: Tensor, name: str, arguments: str) -> Callable[..., None] | None:
    """The function of a name for values of this type, on the CPU; it takes tensors as they are."""
    if values.device.type != "cpu":
        return None
    function = kernel(f"{name}_{values.dtype}".replace("torch.", ""), arguments)
    if function is None:
        return None
    return lambda *given: function(
        *(address(v, v.dtype) if isinstance(v, Tensor) else v for v in given)
    )


def kernel_constant(name: str) -> int:
    """A number that the source has under a name; there must be kernels."""
    library = _library(torch.backends.cpu.get_cpu_capability())
    assert library is not None
    return ctypes.c_int64.in_dll(library, name).value


@cache
def _function(name: str, arguments: str, processor: str) -> Callable[..., None] | None:
    library = _library(processor)
    if library is None or not hasattr(library, name):
        return None
    work = ctypes.cast(getattr(library, name), ctypes.c_void_p)
    fields = [(f"{letter}{i}", _TYPES[letter]) for i, letter in enumerate(arguments)]
    structure = type(name, (ctypes.Structure,), {"_fields_": fields})
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(("run", library))
    return lambda *values: run(work, ctypes.byref(structure(*values)))


def processor_has(instructions: str) -> bool:
    """Whether torch says so: of "avx512_bf16", "vnni" and such, if it knows them."""
    function = getattr(torch.cpu, f"_is_{instructions}_supported", None)
    return function is not None and bool(function())


def address(values: Tensor | None, dtype: torch.dtype) -> int | None:
    """Where the first value lies: C reads from there on what it takes for this type."""
    if values is None:
        return None
    if values.dtype != dtype or not values.is_contiguous():
        raise ValueError(
            f"expected {dtype} in order in memory, found {values.dtype}, strides {values.stride()}"
        )
    return values.data_ptr()


@cache
def _library(processor: str) -> ctypes.CDLL | None:
    """What `hatch_build.py` has made of the source for a kind of processor."""
    try:
        files = sorted(_SOURCE.parent.glob("kernels*.[ch]"))
        digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
        return ctypes.CDLL(str(_SOURCE.with_suffix(f".{digest}.{processor}.so")))
    except OSError:  # not made, or this torch has another OpenMP
        return None
