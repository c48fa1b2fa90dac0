"""Loader of the functions in `kernels.c`.

They may not have been compiled for this processor. Then torch computes the same values.
"""

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import torch

from elmo_cli.compiled.structures import Arguments

SOURCE = Path(__file__).with_suffix(".c")
_SPARE_BYTES: Final = 1 << 22
"""Memory that must be free in addition to the size of a library, which takes more."""


def has_kernel(name: str) -> bool:
    """Return whether a function in C was compiled for this processor.

    Its name may contain data types as torch spells them: `step_torch.float32`.
    """
    return _load_function(name, torch.backends.cpu.get_cpu_capability()) is not None


def run_kernel(name: str, arguments: Arguments) -> None:
    """Call a function in C, which must have been compiled, on all threads of torch.

    Its name may contain data types as torch spells them: `step_torch.float32`.
    """
    function = _load_function(name, torch.backends.cpu.get_cpu_capability())
    assert function is not None
    function(arguments)


def read_constant(name: str) -> int:
    """Return a constant of the C source. The library must have been compiled."""
    library = _load_library(torch.backends.cpu.get_cpu_capability())
    assert library is not None
    return ctypes.c_int64.in_dll(library, name).value


def processor_has(instructions: str) -> bool:
    """Return whether the processor has instructions such as "avx512_bf16".

    They extend AVX-512, so there are none where the environment limits torch to less.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    function = getattr(torch.cpu, f"_is_{instructions}_supported", None)
    return function is not None and bool(function())


def multiplies_integers(dtype: torch.dtype) -> bool:
    """Return whether the processor multiplies int8 or int16 in the vectors of C.

    The kernels for int8 require VNNI. Those for int16 also run with AVX2.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    return has_vnni() or (dtype == torch.int16 and capability == "AVX2")


def has_vnni() -> bool:
    """Return whether the processor has AVX-512 VNNI or, without AVX-512, AVX-VNNI."""
    capability = torch.backends.cpu.get_cpu_capability()
    if capability == "AVX512":
        return processor_has("vnni")
    # AVX-VNNI is for vectors of AVX2. An older torch does not know it.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return capability == "AVX2" and bool(capabilities.get("avx_vnni"))


def has_tiles() -> bool:
    """Return whether there are kernels for AMX, and this process may use its tiles."""
    return has_kernel("product_bfloat16_tiles") and request_tiles()


@cache
def request_tiles() -> bool:
    """Ask the system for AMX tiles, once. Return whether it gives them."""
    return processor_has("amx_tile") and bool(torch.cpu._init_amx())


@cache
def _load_function(name: str, processor: str) -> Callable[[Arguments], None] | None:
    """Return a function in C that was compiled for a kind of processor, or None."""
    library = _load_library(processor)
    name = name.replace("torch.", "")
    if library is None or not hasattr(library, name):
        return None
    work = ctypes.cast(getattr(library, name), ctypes.c_void_p)
    # `run` in C calls `work` once in each thread.
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(("run", library))
    return lambda arguments: run(work, ctypes.byref(arguments))


@cache
def _load_library(processor: str) -> ctypes.CDLL | None:
    """Load what `hatch_build.py` compiled for a kind of processor, if anything.

    Torch computes other bits. So a lack of memory or of file descriptors, which may be
    there for a moment, is an error.
    """
    files = sorted(SOURCE.parent.glob("kernels*.[ch]"))
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    path = SOURCE.with_suffix(f".{digest}.{processor}.so")
    try:
        path.open("rb").close()
    except FileNotFoundError:  # It was not compiled.
        return None
    try:
        # The wheels of torch for ARM do not export their OpenMP to other libraries.
        for openmp in Path(torch.__file__).parents[1].glob("torch.libs/libgomp*"):
            ctypes.CDLL(str(openmp), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(path))
    except OSError:  # This torch may have a different OpenMP.
        if _lacks_memory(path.stat().st_size + _SPARE_BYTES):
            raise MemoryError from None
        return None


def _lacks_memory(n_bytes: int) -> bool:
    """Return whether the system refuses to map memory."""
    try:
        mmap.mmap(-1, n_bytes).close()
    except OSError:
        return True
    return False
