"""`cells.next_cells` in one pass: the functions of `compiled_cells.c`, where it was compiled."""

import ctypes
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from elmo_cli.cells import NextCells, TableRows
from elmo_cli.products import ScaledRows

_SOURCE = Path(__file__).with_suffix(".c")
_POINTER, _COUNT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_ARGUMENTS = [_COUNT, _COUNT, *[_POINTER] * 6, _FLOAT, _POINTER, _POINTER]


def compiled_next_cells(gates: torch.dtype, half: torch.dtype) -> NextCells | None:
    """The function for gates and what is projected of these types on the CPU, if there is one."""
    name = f"{gates}_to_{half}".replace("torch.", "")
    function = getattr(_library(torch.backends.cpu.get_cpu_capability()), name, None)
    if function is None:
        return None
    function.argtypes, function.restype = _ARGUMENTS, None

    def next_cells(
        from_inputs: TableRows,
        from_hidden: ScaledRows,
        cells: TableRows,
        clip: float,
        out: Tensor,
        half: Tensor,
    ) -> None:
        function(
            *out.shape,
            *map(_address, (*from_inputs, *from_hidden, *cells)),
            2 * clip,
            *map(_address, (out, half)),
        )

    return next_cells


@cache
def _library(processor: str) -> ctypes.CDLL | None:
    """What `hatch_build.py` has made of this source for a kind of processor."""
    digest = sha256(_SOURCE.read_bytes()).hexdigest()[:8]
    try:
        return ctypes.CDLL(str(_SOURCE.with_suffix(f".{digest}.{processor}.so")))
    except OSError:  # not made, or this torch has another OpenMP
        return None


def _address(values: Tensor | None) -> int | None:
    """Where the first value lies."""
    if values is None:
        return None
    if not values.is_contiguous():
        raise ValueError("expected values in order in memory")
    return values.data_ptr()
