"""The recurrence of an LSTM layer: from inputs and hidden states, by their gates, to cells."""

import torch
from torch import Tensor

from elmo_cli.inference.cells import NextCells, TableRows
from elmo_cli.inference.kernels import address, kernel
from elmo_cli.inference.linear import CompiledProduct, Product

LANES = 16
"""Values of each gate that are computed together in C."""
_ARGUMENTS = "nnn" + 7 * "p" + "fpp"


class Recurrence:
    """A product for each part of the gates, and a pass over both."""

    def __init__(self, from_inputs: Product, from_hidden: Product, next_cells: NextCells) -> None:
        self.from_inputs = from_inputs
        """Their results are for `take_step` alone, which knows their order."""
        self.from_hidden = from_hidden
        self._next_cells = next_cells

    def n_rows(self, n_rows: int) -> int:
        """For so many hidden states, how many rows `take_step` wants: see `Product.n_rows`."""
        return self.from_hidden.n_rows(n_rows)

    def take_step(
        self,
        from_inputs: TableRows,
        hidden: TableRows,
        cells: TableRows,
        clip: float,
        out: Tensor,
        half: Tensor,
    ) -> None:
        """Take n nodes one step further; see `next_cells`.

        Args:
            hidden: hidden states, float, shape (n, P). Its table may have more rows; which of
                them are meant rises from node to node, and none of the first is left out.
        """
        products = self.from_hidden.unscaled(hidden.table)
        if hidden.rows is None:
            products = products.first(out.shape[0])
        products = products._replace(which=hidden.rows)
        self._next_cells(from_inputs, products, cells, clip, out, half)


class CompiledRecurrence(Recurrence):
    """The same in C, where gates become cells while they are in the cache of a core.

    They come in blocks of `LANES` values of each gate: (D / LANES, 4, LANES).
    """

    from_hidden: CompiledProduct

    def __init__(self, from_inputs: Tensor, from_hidden: Tensor, bias: Tensor) -> None:
        self.from_inputs = CompiledProduct(_in_blocks(from_inputs), _in_blocks(bias))
        self.from_hidden = CompiledProduct(_in_blocks(from_hidden))

    def take_step(
        self,
        from_inputs: TableRows,
        hidden: TableRows,
        cells: TableRows,
        clip: float,
        out: Tensor,
        half: Tensor,
    ) -> None:
        """See `Recurrence.take_step`."""
        function = kernel("step", _ARGUMENTS)
        assert function is not None
        function(
            *(*out.shape, hidden.table.shape[1]),
            address(from_inputs.table, torch.float32),
            address(from_inputs.rows, torch.int64),
            address(hidden.table, torch.float32),
            address(self.from_hidden.weight, torch.float32),
            address(hidden.rows, torch.int64),
            address(cells.table, torch.float32),
            address(cells.rows, torch.int64),
            2 * clip,
            address(out, torch.float32),
            address(half, torch.float32),
        )


def compiles_steps(from_hidden: Tensor) -> bool:
    """Whether there is a step in C for weights of this shape, (4 D, P)."""
    return len(from_hidden) % (4 * LANES) == 0 and kernel("step", _ARGUMENTS) is not None


def _in_blocks(values: Tensor) -> Tensor:
    """Weights of gates or their bias, (4 D, ...), in the order of blocks, the same shape."""
    return values.reshape(4, -1, LANES, *values.shape[1:]).transpose(0, 1).flatten(0, 2)
