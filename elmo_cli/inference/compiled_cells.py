"""`cells.next_cells` in one pass, in C, where that was compiled."""

from functools import partial

import torch
from torch import Tensor

from elmo_cli.inference.cells import NextCells, TableRows
from elmo_cli.inference.kernels import address, kernel
from elmo_cli.inference.linear import ScaledRows

_ARGUMENTS = "nn" + 7 * "p" + "fpp"


def compiled_next_cells(gates: torch.dtype, half: torch.dtype) -> NextCells | None:
    """The function for gates and what is projected of these types on the CPU, if there is one."""
    name = f"{gates}_to_{half}".replace("torch.", "")
    return partial(_next_cells, name, gates) if kernel(name, _ARGUMENTS) else None


def _next_cells(
    name: str,
    gates: torch.dtype,
    from_inputs: TableRows,
    from_hidden: ScaledRows,
    cells: TableRows,
    clip: float,
    out: Tensor,
    half: Tensor,
) -> None:
    function = kernel(name, _ARGUMENTS)
    assert function is not None
    function(
        *out.shape,
        address(from_inputs.table, gates),
        address(from_inputs.rows, torch.int64),
        address(from_hidden.rows, gates),
        address(from_hidden.scales, torch.float32),
        address(from_hidden.which, torch.int64),
        address(cells.table, torch.float32),
        address(cells.rows, torch.int64),
        2 * clip,
        address(out, torch.float32),
        address(half, half.dtype),
    )
