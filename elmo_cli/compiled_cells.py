"""`cells.next_cells` in one pass: the functions of `compiled_cells.c`, where it was compiled."""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from elmo_cli.cells import NextCells, TableRows
from elmo_cli.products import ScaledRows

_SOURCE = Path(__file__).with_suffix(".c")
_POINTER, _COUNT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_ARGUMENTS = [_COUNT, _COUNT, *[_POINTER] * 7, _FLOAT, _POINTER, _POINTER]


def compiled_next_cells(gates: torch.dtype, half: torch.dtype) -> NextCells | None:
    """The function for gates and what is projected of these types on the CPU, if there is one."""
    return partial(_next_cells, gates) if _function(gates, half) else None


def _next_cells(
    gates: torch.dtype,
    from_inputs: TableRows,
    from_hidden: ScaledRows,
    cells: TableRows,
    clip: float,
    out: Tensor,
    half: Tensor,
) -> None:
    function = _function(gates, half.dtype)
    assert function is not None
    function(
        *out.shape,
        _address(from_inputs.table, gates),
        _address(from_inputs.rows, torch.int64),
        _address(from_hidden.rows, gates),
        _address(from_hidden.scales, torch.float32),
        _address(from_hidden.which, torch.int64),
        _address(cells.table, torch.float32),
        _address(cells.rows, torch.int64),
        2 * clip,
        _address(out, torch.float32),
        _address(half, half.dtype),
    )


def _address(values: Tensor | None, dtype: torch.dtype) -> int | None:
    """Where the first value lies: C reads from there on what it takes for this type."""
    if values is None:
        return None
    if values.dtype != dtype or not values.is_contiguous():
        raise ValueError(
            f"expected {dtype} in order in memory, found {values.dtype}, strides {values.stride()}"
        )
    return values.data_ptr()


@cache
def _function(gates: torch.dtype, half: torch.dtype) -> Callable[..., Any] | None:
    """The function in C, for the processor at hand."""
    library = _library(torch.backends.cpu.get_cpu_capability())
    function = getattr(library, f"{gates}_to_{half}".replace("torch.", ""), None)
    if function is None:
        return None
    function.argtypes, function.restype = _ARGUMENTS, None
    return cast(Callable[..., Any], function)


def _library(processor: str) -> ctypes.CDLL | None:
    """What `hatch_build.py` has made of this source for a kind of processor."""
    try:
        digest = sha256(_SOURCE.read_bytes()).hexdigest()[:8]
        return ctypes.CDLL(str(_SOURCE.with_suffix(f".{digest}.{processor}.so")))
    except OSError:  # not made, or this torch has another OpenMP
        return None
