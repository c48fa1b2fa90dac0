"""The fast LSTM layer: the same as `lstm.Lstm`, without gradients, over a trie.

    i, j, f, o = gates = W_ih x + W_hh h + b
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    h = clip(W_hr (sigmoid(o) * tanh(c)))

W_ih x is computed for several steps at once, before the layer runs (`fast_bilm`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.compiled.kernels import address, kernel, kernel_constant
from elmo_cli.compiled.linear import CompiledLinear, Linear
from elmo_cli.inference.linear import linear
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.trie import Trie
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState

_STEP = "nnn" + 6 * "p" + "fpp"
_NEXT_CELLS = "nn" + 5 * "p" + "fpp"


class TableRows(NamedTuple):
    """Rows of a table, one for each node of a step."""

    table: Tensor
    """Float, shape (V, D)."""
    rows: Tensor | None
    """Int64, shape (n,); None: the table has n rows, and they are those."""

    def values(self) -> Tensor:
        """Float, shape (n, D)."""
        return self.table if self.rows is None else self.table.index_select(0, self.rows)


class Steps(NamedTuple):
    """How nodes follow each other from step to step, on the device; see `Trie`."""

    sizes: Sequence[int]
    """The nodes of each step."""
    n_ended: Sequence[int]
    """The sentences that end at each step."""
    parents: Sequence[Tensor]
    """For each node of a step, its parent's place in the step before, int64, shape (n,)."""
    ends: Sequence[Tensor]
    """For each sentence that ends at a step, the place of its last node there, int64."""

    @classmethod
    def of(cls, trie: Trie, device: torch.device) -> "Steps":
        """The steps of a trie."""
        parents = torch.split(torch.from_numpy(trie.parents).to(device), trie.sizes)
        ends = torch.split(torch.from_numpy(trie.ends).to(device), trie.n_ended)
        return cls(trie.sizes, trie.n_ended, parents, ends)


class FastLstm:
    """One LSTM layer in one direction, prepared for inference."""

    def __init__(self, lstm: Lstm, types: ComputeTypes) -> None:
        self._dim = lstm.options.dim
        self._cell_clip = lstm.options.cell_clip or math.inf
        self._proj_clip = lstm.options.proj_clip or math.inf
        self._device = types.device
        self._projection, self._output = None, types.values
        if lstm.projection is not None:
            weight = lstm.projection.weight.detach().to(types.device)
            self._projection = linear(weight, None, types.weights, types.values)
            self._output = types.weights
        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        parts = torch.split(lstm.gates.weight.detach(), lstm.options.projection_dim, dim=1)
        weight_ih, weight_hh, bias = (values.to(types.device) for values in (*parts, bias))
        self.input_gates, self.hidden_gates = self._gate_layers(weight_ih, weight_hh, bias, types)

    def _gate_layers(
        self, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, types: ComputeTypes
    ) -> tuple[Linear, Linear]:
        """The layers of both parts of the gates; the order of their outputs is ours alone."""
        self._kernel = None
        if types.device.type == "cpu":
            name = f"cells_{types.values}_to_{self._output}".replace("torch.", "")
            self._kernel = kernel(name, _NEXT_CELLS)
        dtypes = types.gate_weights, types.values
        return linear(weight_ih, bias, *dtypes), linear(weight_hh, None, *dtypes)

    def run(
        self, input_gates: Iterator[TableRows], steps: Steps, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie; see `Lstm.forward`.

        Args:
            input_gates: W_ih x + b, float, shape (n, 4 D), for each step.
            steps: how nodes follow each other.
            state: where each root starts.

        Returns:
            The hidden states, float, shape (M, P), and the states in which sentences ended, in
            that order.
        """
        hidden, cells = state.hidden, state.cell.contiguous()
        # All that stays is allocated first: between what comes and goes it would break up memory.
        hidden_states = hidden.new_empty(sum(steps.sizes), hidden.shape[1])  # (M, P)
        n_ended, largest = sum(steps.n_ended), max(steps.sizes)
        ended = LstmState(*(values.new_empty(n_ended, values.shape[1]) for values in state))
        written = cells.new_empty(2, largest, self._dim)  # by the steps in turn
        output = hidden.new_empty(largest, self._dim, dtype=self._output)
        start = first = 0
        for step, (size, n_ends, parents, ends) in enumerate(zip(*steps, strict=True)):
            end, after = start + size, written[step % 2, :size]
            before = TableRows(cells, parents)
            # No name for the gates: their table has to go before the next one is made.
            self.take_step(
                next(input_gates), hidden.index_select(0, parents), before, after, output[:size]
            )
            hidden, cells = hidden_states[start:end], after
            self._project(output[:size], hidden)
            if n_ends:
                for values, last in zip((hidden, cells), ended, strict=True):
                    torch.index_select(values, 0, ends, out=last[first : first + n_ends])
            start, first = end, first + n_ends
        return hidden_states, ended

    def take_step(
        self, input_gates: TableRows, hidden: Tensor, cells: TableRows, after: Tensor, out: Tensor
    ) -> None:
        """Take n nodes one step further.

        Args:
            input_gates: W_ih x + b, float, shape (n, 4 D).
            hidden: the hidden states before, float, shape (n, P).
            cells: the cells before, float32, shape (n, D).
            after: the cells after it, float32, shape (n, D): written.
            out: what is projected, float, shape (n, D): written.
        """
        hidden_gates = self.hidden_gates(hidden)  # (n, 4 D)
        if self._kernel is None:
            next_cells(input_gates, hidden_gates, cells, self._cell_clip, after, out)
            return
        self._kernel(
            *out.shape,
            address(input_gates.table, hidden_gates.dtype),
            address(input_gates.rows, torch.int64),
            address(hidden_gates, hidden_gates.dtype),
            address(cells.table, torch.float32),
            address(cells.rows, torch.int64),
            self._cell_clip,
            address(after, torch.float32),
            address(out, self._output),
        )

    def _project(self, output: Tensor, hidden: Tensor) -> None:
        """From float, shape (n, D), to `hidden`, float, shape (n, P): written."""
        projected = output if self._projection is None else self._projection(output)
        torch.clamp(projected, -self._proj_clip, self._proj_clip, out=hidden)


class CompiledLstm(FastLstm):
    """The same in float32 with steps in C: gates become cells while a core's cache has them.

    They come in blocks of a few values of each gate: see `_in_blocks`.
    """

    def _gate_layers(
        self, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, types: ComputeTypes
    ) -> tuple[Linear, Linear]:
        self._kernel = kernel("step", _STEP)
        input_gates = CompiledLinear(_in_blocks(weight_ih), _in_blocks(bias))
        return input_gates, CompiledLinear(_in_blocks(weight_hh))

    def take_step(
        self, input_gates: TableRows, hidden: Tensor, cells: TableRows, after: Tensor, out: Tensor
    ) -> None:
        """See `FastLstm.take_step`."""
        assert self._kernel is not None
        self._kernel(
            *(*out.shape, hidden.shape[1]),
            address(input_gates.table, torch.float32),
            address(input_gates.rows, torch.int64),
            address(hidden, torch.float32),
            address(self.hidden_gates.weight, torch.float32),
            address(cells.table, torch.float32),
            address(cells.rows, torch.int64),
            self._cell_clip,
            address(after, torch.float32),
            address(out, torch.float32),
        )


def fast_lstm(lstm: Lstm, types: ComputeTypes) -> FastLstm:
    """Prepare a layer for inference, in the fastest way."""
    float32 = {types.values, types.weights, types.gate_weights} == {torch.float32}
    if float32 and types.device.type == "cpu" and kernel("step", _STEP) is not None:
        return CompiledLstm(lstm, types)
    return FastLstm(lstm, types)


def next_cells(
    input_gates: TableRows,
    hidden_gates: Tensor,
    cells: TableRows,
    clip: float,
    after: Tensor,
    out: Tensor,
) -> None:
    """From both parts of the gates to cells, as the functions in C; see `FastLstm.take_step`.

    Args:
        hidden_gates: W_hh h, float, shape (n, 4 D): may be overwritten.
        clip: the largest value of a cell.
    """
    gates = hidden_gates.add_(input_gates.values()).float()  # (n, 4 D)
    i, j, f, o = gates.chunk(4, dim=1)  # (n, D) each
    torch.mul(cells.values(), f.sigmoid_(), out=after)
    after.addcmul_(i.sigmoid_(), j.tanh_()).clamp_(-clip, clip)
    out.copy_(after.tanh().mul_(o.sigmoid_()))


def _in_blocks(values: Tensor) -> Tensor:
    """Weights of gates or their bias, (4 D, ...), as the step in C takes them.

    Returns:
        They come in blocks of n = `n_lanes` values of each gate, with zeros to fill the last block:
        (ceil(D / n) * 4 * n, ...).
    """
    n_lanes = kernel_constant("n_lanes")
    gates = values.reshape(4, -1, *values.shape[1:])  # (4, D, ...)
    if missing := -gates.shape[1] % n_lanes:
        gates = torch.cat([gates, gates.new_zeros(4, missing, *values.shape[1:])], dim=1)
    blocks = gates.reshape(4, -1, n_lanes, *values.shape[1:]).transpose(0, 1)
    return blocks.flatten(0, 2)
