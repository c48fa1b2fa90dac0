"""Input gates of an LSTM, W_ih x + b, computed for several steps at once.

Steps share a table of gates: its rows are the distinct tokens of the steps, or their
nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_ROWS: Final = 256
"""Rows of a product that steps share. More rows are no faster."""
MAX_STEPS = 500
"""Steps that share the gates of distinct tokens. They are one call of C, which Ctrl-C
cannot stop: half a second for the original model."""


class TableRows(NamedTuple):
    """Rows of a table of gates or cells, one for each of the n nodes of a step."""

    table: Tensor
    """Float, (m, 4 D) for gates, (m, D) for cells."""
    rows: Tensor | None
    """Int64, (n,). None selects all rows of the table, in which case m is n."""

    def values(self) -> Tensor:
        """Return the rows: float, shape (n, 4 D) or (n, D)."""
        if self.rows is None:
            return self.table
        return self.table.index_select(0, self.rows)


class StepGates(NamedTuple):
    """Input gates of consecutive steps, with M nodes."""

    sizes: list[int]
    """Number of nodes per step; they sum to M."""
    table: Tensor
    """W_ih x + b, a row per distinct token or per node, float, shape (m, 4 D). With a
    function in C for steps, it has the shape of `CompiledLinear.multiply_to_blocks`."""
    rows: Tensor | None
    """Row of each node, int64, (M,). None: the rows are the nodes."""

    def split(self) -> Iterator[TableRows]:
        """Yield the gates of each step."""
        if self.rows is None:
            for table in torch.split(self.table, self.sizes):
                yield TableRows(table, None)
        else:
            for rows in torch.split(self.rows, self.sizes):
                yield TableRows(self.table, rows)


def compute_input_gates(
    multiply: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    *,
    tokens: NDArray[np.int64] | None,
    sizes: Sequence[int],
    workspace: Tensor,
) -> Iterator[StepGates]:
    """Yield W_ih x + b for the nodes of several steps.

    Args:
        multiply: `FastLstm.compute_gates`.
        inputs: Vectors of distinct tokens or of nodes, float, shape (n, P).
        tokens: Row of `inputs` for each node. None: the nodes are the rows.
        sizes: Number of nodes per step.
        workspace: Memory for the gates of a group of steps, float, shape (m, 4 D).
    """
    if tokens is None:
        return _gates_of_nodes(
            multiply, inputs=inputs, sizes=sizes, workspace=workspace
        )
    return _gates_of_tokens(
        multiply, inputs=inputs, tokens=tokens, sizes=sizes, workspace=workspace
    )


def _gates_of_nodes(
    multiply: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    sizes: Sequence[int],
    workspace: Tensor,
) -> Iterator[StepGates]:
    """Yield the gates of steps whose nodes are the rows of `inputs`."""
    start = 0
    for group in group_by_rows(sizes):
        end = start + sum(group)
        table = multiply(inputs[start:end], workspace)
        yield StepGates(sizes=group, table=table, rows=None)
        del table  # It is freed before the next is made.
        start = end


def _gates_of_tokens(
    multiply: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    tokens: NDArray[np.int64],
    sizes: Sequence[int],
    workspace: Tensor,
) -> Iterator[StepGates]:
    """Yield the gates of steps, computed once for each distinct token of a group."""
    start = 0
    for group in group_by_tokens(tokens, sizes, max_tokens=len(workspace)):
        end = start + sum(group)
        if len(group) == len(sizes):  # All rows of the inputs are used.
            indices = tokens
            table = multiply(inputs, workspace)
        else:
            distinct, indices = np.unique(tokens[start:end], return_inverse=True)
            used = torch.from_numpy(distinct).to(inputs.device)
            table = multiply(inputs.index_select(0, used), workspace)
        rows = torch.from_numpy(indices).to(inputs.device)
        yield StepGates(sizes=group, table=table, rows=rows)
        del table  # It is freed before the next is made.
        start = end


def group_by_tokens(
    tokens: NDArray[np.int64], sizes: Sequence[int], max_tokens: int
) -> Iterator[list[int]]:
    """Split steps into groups of at most `max_tokens` tokens and `MAX_STEPS`.

    One step may have more tokens.

    Args:
        tokens: Token of each node.
        sizes: Number of nodes per step.
        max_tokens: Maximum number of distinct tokens in a group.

    Yields:
        The sizes of the steps of a group.
    """
    if len(tokens) <= max_tokens and len(sizes) <= MAX_STEPS:
        yield list(sizes)
        return
    group: list[int] = []
    seen: set[int] = set()
    for step in np.split(tokens, np.cumsum(sizes)[:-1]):
        distinct = set(step.tolist())
        n_seen = len(seen | distinct)
        if group and (n_seen > max_tokens or len(group) == MAX_STEPS):
            yield group
            group = []
            seen = set()
        group.append(len(step))
        seen |= distinct
    yield group


def group_by_rows(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Split steps into groups of at most `MAX_ROWS` rows, or of one step."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > MAX_ROWS:
            yield group
            group = []
        group.append(size)
    yield group
