"""The fast LSTM layer: the same as `lstm.Lstm`, without gradients, over a trie.

    i, j, f, o = gates = W_ih x + W_hh h + b
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    h = clip(W_hr (sigmoid(o) * tanh(c)))

W_ih x is computed for several steps at once, before the layer runs (`fast_bilm`).

The trie of a batch, for one direction: an LSTM that starts from the same state and reads the same
tokens is in the same state. So each distinct beginning is computed once; sentences part where
their tokens do.

    step            0          1            2
    the cat sat     the ---+-- cat ------- sat
    the dog                +-- dog
    a dog           a -------- dog

The nodes lie step after step, and nothing is padded.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import kernel, kernel_constant, linear
from elmo_cli.inference.device import ComputeTypes
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState


@dataclass(frozen=True)
class Trie:
    """The distinct beginnings of sentences. M nodes for B sentences of N tokens."""

    sizes: list[int]
    """The nodes of each step; they sum to M."""
    tokens: NDArray[np.int64]
    """The token of each node, shape (M,)."""
    parents: Sequence[Tensor]
    """For each node of a step, its parent's place in the step before, or its root, shape (n,)."""
    nodes: Tensor
    """The node of each token, sentence after sentence, shape (N,)."""
    n_ended: list[int]
    """The sentences that end at each step; they sum to B."""
    ends: Sequence[Tensor]
    """For each sentence that ends at a step, the place of its last node there."""
    by_sentence: Tensor
    """The place of each sentence in the order in which they end, shape (B,)."""


def build_trie(
    tokens: NDArray[np.int64], roots: NDArray[np.int64], device: torch.device, *, backward: bool
) -> Trie:
    """Build the trie of sentences; its tensors are int64, on a device.

    Args:
        tokens: of B sentences, none empty, as numbers, shape (B, T), -1 where one has none.
        roots: the state in which each sentence starts, shape (B,): only sentences with
            the same root can share nodes.
        backward: the sentences run from their end.
    """
    mask = tokens >= 0
    lengths = mask.sum(axis=1)
    steps = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    if backward:
        steps = np.where(mask, lengths[:, None] - 1 - steps, steps)
        tokens = np.take_along_axis(tokens, steps, axis=1)
    n_tokens = tokens.max(initial=0) + 1
    nodes, n_nodes, keys = np.empty_like(tokens), 0, []
    places = roots.copy()  # of the last node of each sentence, in its step
    for step in range(lengths.max()):
        running = np.flatnonzero(lengths > step)
        distinct, places[running] = np.unique(
            places[running] * n_tokens + tokens[running, step], return_inverse=True
        )
        nodes[running, step] = n_nodes + places[running]
        n_nodes += len(distinct)
        keys.append(distinct)
    parents, node_tokens = np.divmod(np.concatenate(keys), n_tokens)
    ended = lengths.argsort(kind="stable")  # the sentences in the order in which they end
    sizes, n_ended = list(map(len, keys)), np.bincount(lengths)[1:].tolist()
    moved = partial(torch.as_tensor, device=device)
    return Trie(
        sizes,
        node_tokens,
        torch.split(moved(parents), sizes),
        moved(np.take_along_axis(nodes, steps, axis=1)[mask]),
        n_ended,
        torch.split(moved(places[ended]), n_ended),
        moved(ended.argsort()),
    )


_FLOAT = torch.float32
_CELLS = _FLOAT, torch.int64, float, _FLOAT
"""What functions in C take: cells before as rows of a table, the largest value, cells after."""


class TableRows(NamedTuple):
    """Rows of a table, one for each node of a step."""

    table: Tensor
    """Float, shape (V, D)."""
    rows: Tensor | None
    """Int64, shape (n,); None: the table has n rows, and they are those."""

    def values(self) -> Tensor:
        """Float, shape (n, D)."""
        return self.table if self.rows is None else self.table.index_select(0, self.rows)


class FastLstm:
    """One LSTM layer in one direction, prepared for inference on a device, in a precision.

    In float32 its steps are in C, where there are kernels: gates become cells while a core's cache
    has them. They come in blocks of a few values of each gate then: see `_in_blocks`.
    """

    def __init__(self, lstm: Lstm, types: ComputeTypes) -> None:
        self._dim = lstm.options.dim
        self._cell_clip = lstm.options.cell_clip or math.inf
        self._proj_clip = lstm.options.proj_clip or math.inf
        self._output, self._project = types.values, None
        if lstm.projection is not None:
            weight = lstm.projection.weight.detach().to(types.device)
            self._project = linear(weight, None, types.weights, types.values)
            self._output = types.weights
        self._step = self._next_cells = None
        if types.device.type == "cpu":
            gates = types.values, torch.int64, types.values
            name = f"cells_{types.values}_to_{self._output}"
            self._next_cells = kernel(name, int, int, *gates, *_CELLS, self._output)
            if types[1:] == 3 * (_FLOAT,):
                gates = _FLOAT, torch.int64, _FLOAT
                self._step = kernel("step", int, int, int, *gates, _FLOAT, *_CELLS, _FLOAT)

        def placed(values: Tensor) -> Tensor:
            return _in_blocks(values) if self._step else values.to(types.device)

        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        weight = lstm.gates.weight.detach()
        weight_ih, weight_hh = torch.split(weight, lstm.options.projection_dim, dim=1)
        dtypes = types.gate_weights, types.values
        self.input_gates = linear(placed(weight_ih), placed(bias), *dtypes)
        self.hidden_gates = linear(placed(weight_hh), None, *dtypes)

    def run(
        self, input_gates: Iterator[TableRows], trie: Trie, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie; see `Lstm.forward`.

        From W_ih x + b, float, shape (n, 4 D), for each step, and where each root starts, to the
        hidden states, float, shape (M, P), and the states in which sentences ended, in that order.
        """
        hidden, cells = state.hidden, state.cell.contiguous()
        # All that stays is allocated first: between what comes and goes it would break up memory.
        hidden_states = hidden.new_empty(sum(trie.sizes), hidden.shape[1])  # (M, P)
        n_ended, largest = sum(trie.n_ended), max(trie.sizes)
        ended = LstmState(*(values.new_empty(n_ended, values.shape[1]) for values in state))
        written = cells.new_empty(2, largest, self._dim)  # by the steps in turn
        output = hidden.new_empty(largest, self._dim, dtype=self._output)
        start = first = 0
        steps = zip(trie.sizes, trie.n_ended, trie.parents, trie.ends, strict=True)
        for step, (size, n_ends, parents, ends) in enumerate(steps):
            end, after = start + size, written[step % 2, :size]
            before = TableRows(cells, parents)
            # No name for the gates: their table has to go before the next one is made.
            self.take_step(
                next(input_gates), hidden.index_select(0, parents), before, after, output[:size]
            )
            hidden, cells = hidden_states[start:end], after
            projected = output[:size] if self._project is None else self._project(output[:size])
            torch.clamp(projected, -self._proj_clip, self._proj_clip, out=hidden)
            del projected
            if n_ends:
                for values, last in zip((hidden, cells), ended, strict=True):
                    torch.index_select(values, 0, ends, out=last[first : first + n_ends])
            start, first = end, first + n_ends
        return hidden_states, ended

    def take_step(
        self,
        input_gates: TableRows,  # W_ih x + b, float, (n, 4 D)
        hidden: Tensor,  # before, float, (n, P)
        cells: TableRows,  # before, float32, (n, D)
        after: Tensor,  # the cells after it, float32, (n, D): written
        out: Tensor,  # what is projected, float, (n, D): written
    ) -> None:
        """Take n nodes one step further."""
        n, dim = out.shape
        rest = *cells, self._cell_clip, after, out
        if self._step is not None:
            width, weight = hidden.shape[1], self.hidden_gates.weight
            self._step(n, dim, width, *input_gates, hidden, weight, *rest)
            return
        hidden_gates = self.hidden_gates(hidden)  # (n, 4 D)
        if self._next_cells is not None:
            self._next_cells(n, dim, *input_gates, hidden_gates, *rest)
            return
        gates = hidden_gates.add_(input_gates.values()).float()
        i, j, f, o = gates.chunk(4, dim=1)  # (n, D) each
        torch.mul(cells.values(), f.sigmoid_(), out=after)
        after.addcmul_(i.sigmoid_(), j.tanh_()).clamp_(-self._cell_clip, self._cell_clip)
        out.copy_(after.tanh().mul_(o.sigmoid_()))


def _in_blocks(values: Tensor) -> Tensor:
    """Weights of gates or their bias, (4 D, ...), as the step in C takes them.

    They come in blocks of n = `block` values of each gate, with zeros to fill the last block:
    (ceil(D / n) * 4 * n, ...).
    """
    n = kernel_constant("block")
    # By their inputs, as the weights of a file lie in memory and as `CompiledLinear` packs them.
    gates = values.t().reshape(*values.shape[1:], 4, -1)  # (..., 4, D)
    if missing := -gates.shape[-1] % n:
        gates = functional.pad(gates, (0, missing))
    blocks = gates.reshape(*gates.shape[:-1], -1, n).transpose(-3, -2)
    return blocks.flatten(-3).t()
