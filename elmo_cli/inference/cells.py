"""From the gates of an LSTM to its cells: the elementwise part of a step.

    i, j, f, o = gates
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    what is projected = sigmoid(o) * tanh(c)

tanh(x) is computed as 2 (sigmoid(2 x) - 1/2), which takes a third of the time and is off by
1e-7 at most. The factors are powers of two, so exact, and cost nothing: j comes doubled, a cell
is kept as twice its value, and of what is projected the half is given.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.inference.linear import ScaledRows


class TableRows(NamedTuple):
    """Rows of a table, one for each node of a step."""

    table: Tensor
    """Float, shape (V, D)."""
    rows: Tensor | None
    """Int64, shape (n,); None: the table has n rows, and they are those."""

    def values(self) -> Tensor:
        """Float, shape (n, D)."""
        return self.table if self.rows is None else self.table.index_select(0, self.rows)

    def copy_to(self, out: Tensor) -> None:
        """Write the values into `out`."""
        if self.rows is None:
            out.copy_(self.table)
        else:
            torch.index_select(self.table, 0, self.rows, out=out)


NextCells = Callable[[TableRows, ScaledRows, TableRows, float, Tensor, Tensor], None]
"""`next_cells`, or what does the same."""


def next_cells(
    from_inputs: TableRows,
    from_hidden: ScaledRows,
    cells: TableRows,
    clip: float,
    out: Tensor,
    half: Tensor,
) -> None:
    """Take n nodes one step further.

    Args:
        from_inputs: the inputs' part of the gates, float, shape (n, 4 D).
        from_hidden: the hidden states' part, the same shape; its rows may be overwritten.
        cells: twice the cells before, float32, shape (n, D).
        clip: the largest value of a cell.
        out: twice the cells after it, float32, shape (n, D): written.
        half: half of what is projected, float, shape (n, D): written.
    """
    gates = from_hidden.added_to(from_inputs.values()).float().sigmoid_()  # (n, 4 D)
    input_gate, memory, forget_gate, output_gate = gates.chunk(4, dim=1)  # (n, D) each
    cells.copy_to(out)
    out.mul_(forget_gate).addcmul_(input_gate, memory, value=4).sub_(input_gate, alpha=2)
    out.clamp_(-2 * clip, 2 * clip)
    half.copy_(out.sigmoid().sub_(0.5).mul_(output_gate))
