"""Loader of the functions in `kernels.c`, and the linear layers that use them.

The functions may not have been compiled for this processor. Then torch multiplies.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import torch

Kernel: TypeAlias = Callable[
    ..., None
]  # Function in C. It runs on all threads of torch.

SOURCE = Path(__file__).with_suffix(".c")
_C_TYPES: dict[Any, Any] = {
    int: ctypes.c_int64,
    float: ctypes.c_double,
    list: ctypes.POINTER(ctypes.c_int64),
}


def find_kernel(name: str, *types: type | torch.dtype) -> Kernel | None:
    """Return a function in C, or None if it was not compiled for this processor.

    Its name may contain data types as torch spells them. The types of its arguments are int, float,
    list (of integers), or the data type of a tensor, for which a caller may pass None.
    """
    processor = torch.backends.cpu.get_cpu_capability()
    return _load_function(name.replace("torch.", ""), types, processor)


def read_constant(name: str) -> int:
    """Return a constant of the C source. The library must have been compiled."""
    library = _load_library(torch.backends.cpu.get_cpu_capability())
    assert library is not None
    return ctypes.c_int64.in_dll(library, name).value


def processor_has(instructions: str) -> bool:
    """Return whether torch finds instructions such as "avx512_bf16" in the processor."""
    function = getattr(torch.cpu, f"_is_{instructions}_supported", None)
    return function is not None and bool(function())


def has_tiles() -> bool:
    """Return whether the functions for AMX were compiled, and this process may use its tiles."""
    return find_kernel("product_bfloat16_tiles") is not None and request_tiles()


@cache
def request_tiles() -> bool:
    """Ask the system for AMX tiles, once per process, and return whether it gives them."""
    return processor_has("amx_tile") and bool(torch.cpu._init_amx())


@cache
def _load_function(
    name: str, types: tuple[type | torch.dtype, ...], processor: str
) -> Kernel | None:
    library = _load_library(processor)
    if library is None or not hasattr(library, name):
        return None
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p)
    fields = [
        (f"field{i}", _C_TYPES.get(kind, ctypes.c_void_p))
        for i, kind in enumerate(types)
    ]
    structure = type(name, (ctypes.Structure,), {"_fields_": fields})
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(("run", library))
    return lambda *values: run(
        address, ctypes.byref(structure(*map(_to_c, values, types)))
    )


def _to_c(value: Any, kind: type | torch.dtype) -> Any:
    """Return a number unchanged, an array for a list, or the address of a contiguous tensor."""
    if value is None or kind is int or kind is float:
        return value
    if kind is list:
        return (ctypes.c_int64 * len(value))(*value)
    if value.dtype != kind or not value.is_contiguous():
        raise ValueError(
            f"expected a contiguous tensor of {kind}, found {value.dtype}, strides {value.stride()}"
        )
    return value.data_ptr()


@cache
def _load_library(processor: str) -> ctypes.CDLL | None:
    """Load the library that `hatch_build.py` compiled for a kind of processor, if there is one."""
    try:
        files = sorted(SOURCE.parent.glob("kernels*.[ch]"))
        digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
        # The wheels of torch for ARM do not export their OpenMP to other libraries.
        for openmp in Path(torch.__file__).parents[1].glob("torch.libs/libgomp*"):
            ctypes.CDLL(str(openmp), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(SOURCE.with_suffix(f".{digest}.{processor}.so")))
    except OSError:  # It was not compiled, or this torch has a different OpenMP.
        return None
