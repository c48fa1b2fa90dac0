"""Fast LSTM layer: computes what `lstm.Lstm` computes, without gradients, over a trie.

    i, j, f, o = gates = W_ih x + W_hh h + b
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    h = clip(W_hr (sigmoid(o) * tanh(c)))

W_ih x is computed for several steps at once, before they run (`fast_bilm`). Equal beginnings of
sentences are computed once (`Trie`).
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import Kernel, find_kernel, has_tiles, read_constant
from elmo_cli.compiled.linear import CompiledLinear, Linear, gates_block, make_linear
from elmo_cli.inference.precision import ComputeTypes, compute_into, prepare_linear
from elmo_cli.inference.trie import Trie
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState

_FLOAT = torch.float32
_CELLS = _FLOAT, torch.int64, float, _FLOAT
"""Types of arguments in C: cells before the step and their rows, the clip, cells after the step."""


class TableRows(NamedTuple):
    """Rows of a table, one per node of a step."""

    table: Tensor  # float, (V, D)
    rows: Tensor | None  # int64, (n,); None selects all n rows of the table

    def values(self) -> Tensor:
        """Return the rows: float, shape (n, D)."""
        return (
            self.table if self.rows is None else self.table.index_select(0, self.rows)
        )


class StepGates(NamedTuple):
    """Input gates of consecutive steps, with M nodes."""

    sizes: list[int]  # number of nodes per step; they sum to M
    table: Tensor
    """W_ih x + b of different nodes, float, shape (V, 4 D). With a function in C for steps, it has
    the shape of `CompiledLinear.multiply_to_blocks`."""
    rows: Tensor | None  # row of each node, int64, (M,); None: the rows are the nodes

    def split(self) -> Iterator[TableRows]:
        """Yield the gates of each step."""
        if self.rows is None:
            yield from (
                TableRows(step, None) for step in torch.split(self.table, self.sizes)
            )
        else:
            yield from (
                TableRows(self.table, rows)
                for rows in torch.split(self.rows, self.sizes)
            )


class _Steps(NamedTuple):
    """Consecutive steps of a trie, with M nodes. E sentences end at them."""

    gates: StepGates
    before: LstmState  # state before the first step
    are_first: bool  # True if `before` is the state of the roots
    parents: Tensor  # see `Trie.parents`, int64, (M,)
    n_ended: list[int]  # number of sentences that end at each step; they sum to E
    ends: Tensor  # see `Trie.ends`, int64, (E,)
    hidden: Tensor  # hidden states, float, (M, P): written
    ended: (
        LstmState  # states at the ends of sentences, in the order of the ends: written
    )


class _Buffers(NamedTuple):
    """Memory for the largest step of a run, n nodes."""

    cells: tuple[
        Tensor, Tensor
    ]  # float32, (n, D) each; the steps write to them in turn
    parents: Tensor  # hidden states of the parents, float, (n, P)
    output: Tensor  # inputs of the projection, float, (n, D)


class FastLstm:
    """LSTM layer in one direction, prepared for inference on a device, in a precision.

    In float32, and in bfloat16 with AMX, a kernel computes whole steps, so that the gates are still
    in a core's cache when they become cells. For this they are in blocks: see `_to_blocks`.
    """

    def __init__(self, lstm: Lstm, types: ComputeTypes) -> None:
        self._types = types
        self._dim, self._hidden_dim = lstm.options.dim, lstm.options.projection_dim
        self._cell_clip = lstm.options.cell_clip or math.inf
        self._proj_clip = lstm.options.proj_clip or math.inf
        self._output, self._project = types.values, None
        if lstm.projection is not None:
            weight = lstm.projection.weight.detach().to(types.device)
            self._project = prepare_linear(weight, None, types.weights, types.values)
            self._output = types.weights
        self._find_kernels()
        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        weight = lstm.gates.weight.detach()
        weight_ih, weight_hh = torch.split(weight, lstm.options.projection_dim, dim=1)
        self.input_gates = self._prepare_gates(weight_ih, bias)
        self.hidden_gates = self._prepare_gates(weight_hh, None)

    def _find_kernels(self) -> None:
        """Find the functions in C for several steps, for one, and for its cells alone."""
        self._steps: Kernel | None = None
        self._step: Kernel | None = None
        self._next_cells: Kernel | None = None
        values = self._types.values
        if self._types.device.type != "cpu":
            return
        gates = values, torch.int64, values
        name = f"cells_{values}_to_{self._output}"
        self._next_cells = find_kernel(name, int, int, *gates, *_CELLS, self._output)
        if self._types[1:4] == 3 * (values,):
            self._step = _find_step(values, self._hidden_dim)
            if self._project is not None:
                self._steps = _find_steps(values, self._hidden_dim, self._dim)

    def _prepare_gates(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Make the layer for the gates from weights, (4 D, P), and a bias, (4 D,), in float32."""

        def arrange(values: Tensor) -> Tensor:
            return _to_blocks(values) if self._step else values.to(self._types.device)

        bias = None if bias is None else arrange(bias)
        return prepare_linear(
            arrange(weight), bias, self._types.gate_weights, self._types.values
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without kernels, with the size of the blocks that the gates have."""
        block = None if self._step is None else read_constant("block")
        return {
            **vars(self),
            "_steps": None,
            "_step": None,
            "_next_cells": None,
            "block": block,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrange the gates again if this processor has other kernels, and keep them otherwise."""
        block = state.pop("block")
        vars(self).update(state)
        if type(self._project) is Linear:
            self._project = make_linear(self._project.weight, self._project.bias)
        self._find_kernels()
        has_equal = block == (None if self._step is None else read_constant("block"))
        for name in ("input_gates", "hidden_gates"):
            layer = state[name]
            if type(layer) is Linear or (
                not has_equal and type(layer) is CompiledLinear
            ):
                weight, bias = layer.unpack()
                if block is not None:
                    weight = _from_blocks(weight, self._dim, block)
                    bias = (
                        None if bias is None else _from_blocks(bias, self._dim, block)
                    )
                setattr(self, name, self._prepare_gates(weight, bias))

    def run(
        self, input_gates: Iterator[StepGates], trie: Trie, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie of M nodes, from the gates of all steps and the states of the roots.

        Return hidden states, float, (M, P), and the final states, in the order of the ends.
        """
        run_steps = self._run_in_turn if self._steps is None else self._run_at_once
        before = LstmState(state.hidden.contiguous(), state.cell.contiguous())
        # Lasting tensors are allocated first: between temporary ones they would fragment memory.
        hidden = before.hidden.new_empty(len(trie.parents), self._hidden_dim)  # (M, P)
        ended = LstmState(
            *(values.new_empty(len(trie.ends), values.shape[1]) for values in before)
        )
        buffers = self._allocate(max(trie.sizes), before)
        step = start = first = 0
        for gates in input_gates:
            n_ended = trie.n_ended[step : step + len(gates.sizes)]
            end, last, size = (
                start + sum(gates.sizes),
                first + sum(n_ended),
                gates.sizes[-1],
            )
            parents, ends = trie.parents[start:end], trie.ends[first:last]
            written = (
                hidden[start:end],
                LstmState(*(values[first:last] for values in ended)),
            )
            run_steps(
                _Steps(gates, before, step == 0, parents, n_ended, ends, *written),
                buffers,
            )
            if len(gates.sizes) % 2:
                buffers = buffers._replace(cells=buffers.cells[::-1])
            before = LstmState(hidden[end - size : end], buffers.cells[1][:size])
            step, start, first = step + len(gates.sizes), end, last
            del gates  # Its table is freed before the next is made.
        return hidden, ended

    def _allocate(self, n_nodes: int, state: LstmState) -> _Buffers:
        width = self._dim if self._steps is None else self.input_gates.n_outputs // 4
        cells = state.cell.new_empty(2, n_nodes, width)
        parents = state.hidden.new_empty(n_nodes, self._hidden_dim)
        return _Buffers(
            (cells[0], cells[1]),
            parents,
            parents.new_empty(n_nodes, self._dim, dtype=self._output),
        )

    def _run_at_once(self, steps: _Steps, buffers: _Buffers) -> None:
        """Run steps by one call of C."""
        assert self._steps is not None
        assert isinstance(self._project, CompiledLinear)
        table, rows = steps.gates.table, steps.gates.rows
        n_gates, block = table.shape[1], read_constant("block")
        strides = (
            (self._dim, block)
            if steps.are_first
            else (block, block * len(steps.before.cell))
        )
        sizes = steps.gates.sizes
        shape = len(sizes), self._dim, self._hidden_dim, n_gates, sizes
        inputs = table, rows, *steps.before, *strides, steps.parents
        weights = (
            self.hidden_gates.weight,
            self._project.weight,
            self._cell_clip,
            self._proj_clip,
        )
        memory = buffers.parents, buffers.output, *buffers.cells
        written = steps.hidden, steps.n_ended, steps.ends, *steps.ended
        self._steps(*shape, *inputs, *weights, *memory, *written)

    def _run_in_turn(self, steps: _Steps, buffers: _Buffers) -> None:
        hidden, cells = steps.before
        start = first = 0
        all_parents = torch.split(steps.parents, steps.gates.sizes)
        all_ends = torch.split(steps.ends, steps.n_ended)
        parts = zip(steps.gates.split(), all_parents, all_ends, strict=True)
        for step, (inputs, parents, ends) in enumerate(parts):
            size, end = len(parents), start + len(parents)
            output, after = buffers.output[:size], buffers.cells[step % 2][:size]
            from_parents = compute_into(
                buffers.parents[:size], torch.index_select, hidden, 0, parents
            )
            self.compute_step(
                inputs, from_parents, TableRows(cells, parents), after, output
            )
            hidden, cells = steps.hidden[start:end], after
            projected = output if self._project is None else self._project(output)
            compute_into(
                hidden, torch.clamp, projected, -self._proj_clip, self._proj_clip
            )
            del projected
            if len(ends):
                for values, last in zip((hidden, cells), steps.ended, strict=True):
                    last_rows = last[first : first + len(ends)]
                    compute_into(last_rows, torch.index_select, values, 0, ends)
            start, first = end, first + len(ends)

    def compute_gates(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Compute W_ih x + b for `StepGates.table`; see `Linear.__call__`."""
        if self._steps is None:
            return self.input_gates(inputs, workspace)
        assert isinstance(self.input_gates, CompiledLinear)
        return self.input_gates.multiply_to_blocks(inputs, workspace)

    def compute_step(
        self,
        input_gates: TableRows,  # W_ih x + b, float, (n, 4 D)
        hidden: Tensor,  # hidden states before the step, float, (n, P)
        cells: TableRows,  # cells before the step, float32, (n, D)
        after: Tensor,  # cells after the step, float32, (n, D): written
        out: Tensor,  # inputs of the projection, float, (n, D): written
    ) -> None:
        """Compute one step for n nodes."""
        n, dim = out.shape
        rest = *cells, self._cell_clip, after, out
        if self._step is not None:
            width, weight = hidden.shape[1], self.hidden_gates.weight
            block = read_constant("block")
            strides = self.input_gates.n_outputs, gates_block(), dim, block, dim, block
            self._step(n, dim, width, *input_gates, hidden, weight, *rest, *strides)
            return
        hidden_gates = self.hidden_gates(hidden)  # (n, 4 D)
        if self._next_cells is not None:
            self._next_cells(n, dim, *input_gates, hidden_gates, *rest)
            return
        gates = hidden_gates.add_(input_gates.values()).float()
        i, j, f, o = gates.chunk(4, dim=1)  # (n, D) each
        compute_into(after, torch.mul, cells.values(), f.sigmoid_())
        after.addcmul_(i.sigmoid_(), j.tanh_()).clamp_(
            -self._cell_clip, self._cell_clip
        )
        out.copy_(after.tanh().mul_(o.sigmoid_()))


def _find_step(dtype: torch.dtype, hidden_dim: int) -> Kernel | None:
    """Return the function in C for whole steps in a data type, or None."""
    name = _name_kernel("step", dtype, hidden_dim)
    gates = dtype, torch.int64, dtype
    types = *gates, dtype, *_CELLS, dtype, *6 * (int,)
    return find_kernel(name, int, int, int, *types) if name else None


def _find_steps(dtype: torch.dtype, hidden_dim: int, dim: int) -> Kernel | None:
    """Return the function in C for several steps and their projections in a data type, or None."""
    name = _name_kernel("steps", dtype, hidden_dim, dim)
    before = list, dtype, torch.int64, dtype, _FLOAT, int, int, torch.int64
    weights, buffers = (dtype, dtype, float, float), (dtype, dtype, _FLOAT, _FLOAT)
    types = *before, *weights, *buffers, dtype, list, torch.int64, dtype, _FLOAT
    return find_kernel(name, *4 * (int,), *types) if name else None


def _name_kernel(name: str, dtype: torch.dtype, *sizes: int) -> str | None:
    """Return the name of a function in C for inputs of these sizes, or None."""
    if dtype != torch.bfloat16:
        return f"{name}_{dtype}"
    # Rows of the inputs must consist of whole tiles.
    fits = has_tiles() and not any(size % (2 * read_constant("tile")) for size in sizes)
    return f"{name}_{dtype}_tiles" if fits else None


def _to_blocks(values: Tensor) -> Tensor:
    """Arrange the weights of gates or their bias, (4 D, ...), as the step in C reads them.

    A block has n = `block` values of each gate. Zeros fill the last block, so that the result has
    the shape (ceil(D / n) * 4 * n, ...).
    """
    n = read_constant("block")
    # Transposed, as weights are stored in their file and as `CompiledLinear` packs them.
    gates = values.t().reshape(*values.shape[1:], 4, -1)  # (..., 4, D)
    if missing := -gates.shape[-1] % n:
        gates = functional.pad(gates, (0, missing))
    blocks = gates.reshape(*gates.shape[:-1], -1, n).transpose(-3, -2)
    return blocks.flatten(-3).t()


def _from_blocks(values: Tensor, dim: int, n: int) -> Tensor:
    """Undo `_to_blocks` for gates of `dim` values each, in blocks of n."""
    blocks = values.reshape(-1, 4, n, *values.shape[1:]).transpose(0, 1)
    return blocks.flatten(1, 2)[:, :dim].flatten(0, 1)
