"""Fast LSTM layer: computes what `lstm.Lstm` computes, without gradients, over a trie.

    i, j, f, o = gates = W_ih x + W_hh h + b
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    h = clip(W_hr (sigmoid(o) * tanh(c)))

W_ih x is computed for several steps at once, before the layer runs (`fast_bilm`).

A batch becomes a trie, one per direction. From equal states, equal tokens lead an LSTM to equal
states. Therefore each distinct beginning is computed once, and the trie branches where tokens
differ:

    step            0          1            2
    the cat sat     the ---+-- cat ------- sat
    the dog                +-- dog
    a dog           a -------- dog

The nodes are stored step after step, without padding.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import Kernel, find_kernel, has_tiles, read_constant
from elmo_cli.compiled.linear import CompiledLinear, Linear
from elmo_cli.inference.precision import ComputeTypes, prepare_linear
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState


@dataclass(frozen=True)
class Trie:
    """Distinct beginnings of sentences: M nodes for B sentences of N tokens."""

    sizes: list[int]
    """Number of nodes per step. They sum to M."""
    tokens: NDArray[np.int64]
    """Token of each node, shape (M,)."""
    parents: Sequence[Tensor]
    """Per step, the index of each node's parent in the step before, or its root, shape (n,)."""
    nodes: Tensor
    """Node of each token, sentence after sentence, shape (N,)."""
    n_ended: list[int]
    """Number of sentences that end at each step. They sum to B."""
    ends: Sequence[Tensor]
    """Per step, the index in the step of the last node of each sentence that ends there."""
    by_sentence: Tensor
    """Index of each sentence in the order in which they end, shape (B,)."""


def build_trie(
    tokens: NDArray[np.int64], roots: NDArray[np.int64], device: torch.device, *, backward: bool
) -> Trie:
    """Build the trie of sentences, with int64 tensors on a device.

    Args:
        tokens: Numbers of the tokens of B sentences, none empty, shape (B, T), padded with -1.
        roots: Index of the state in which each sentence starts, shape (B,). Sentences share nodes
            only if they have one root.
        device: Device of the tensors.
        backward: Read the sentences from their end.
    """
    mask = tokens >= 0
    lengths = mask.sum(axis=1)
    steps = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    if backward:
        steps = np.where(mask, lengths[:, None] - 1 - steps, steps)
        tokens = np.take_along_axis(tokens, steps, axis=1)
    n_tokens = tokens.max(initial=0) + 1
    nodes, n_nodes, keys = np.empty_like(tokens), 0, []
    last = roots.copy()  # index of the last node of each sentence in its step
    for step in range(lengths.max()):
        running = np.flatnonzero(lengths > step)
        distinct, last[running] = np.unique(
            last[running] * n_tokens + tokens[running, step], return_inverse=True
        )
        nodes[running, step] = n_nodes + last[running]
        n_nodes += len(distinct)
        keys.append(distinct)
    parents, node_tokens = np.divmod(np.concatenate(keys), n_tokens)
    ended = lengths.argsort(kind="stable")  # sentences in the order in which they end
    sizes, n_ended = list(map(len, keys)), np.bincount(lengths)[1:].tolist()
    to_device = partial(torch.as_tensor, device=device)
    return Trie(
        sizes,
        node_tokens,
        torch.split(to_device(parents), sizes),
        to_device(np.take_along_axis(nodes, steps, axis=1)[mask]),
        n_ended,
        torch.split(to_device(last[ended]), n_ended),
        to_device(ended.argsort()),
    )


_FLOAT = torch.float32
_CELLS = _FLOAT, torch.int64, float, _FLOAT
"""Types of arguments in C: cells before the step and their rows, the clip, cells after the step."""


class TableRows(NamedTuple):
    """Rows of a table, one per node of a step."""

    table: Tensor
    """Float, shape (V, D)."""
    rows: Tensor | None
    """Int64, shape (n,). None selects all n rows of the table."""

    def values(self) -> Tensor:
        """Return the rows: float, shape (n, D)."""
        return self.table if self.rows is None else self.table.index_select(0, self.rows)


class FastLstm:
    """LSTM layer in one direction, prepared for inference on a device, in a precision.

    In float32, and in bfloat16 with AMX, a kernel computes whole steps, so that the gates are still
    in a core's cache when they become cells. For this the gates are arranged in blocks: see
    `_to_blocks`.
    """

    def __init__(self, lstm: Lstm, types: ComputeTypes) -> None:
        """Copy the weights of a layer."""
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
        """Find the functions in C for a step and for its cells alone."""
        self._step: Kernel | None = None
        self._next_cells: Kernel | None = None
        values = self._types.values
        if self._types.device.type != "cpu":
            return
        gates = values, torch.int64, values
        name = f"cells_{values}_to_{self._output}"
        self._next_cells = find_kernel(name, int, int, *gates, *_CELLS, self._output)
        if self._types[1:] == 3 * (values,):
            self._step = _find_step(values, self._hidden_dim)

    def _prepare_gates(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Make the layer for the gates from weights, (4 D, P), and a bias, (4 D,), in float32."""

        def arrange(values: Tensor) -> Tensor:
            return _to_blocks(values) if self._step else values.to(self._types.device)

        bias = None if bias is None else arrange(bias)
        return prepare_linear(arrange(weight), bias, self._types.gate_weights, self._types.values)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without kernels, blocks and panels, which depend on the processor."""
        state = {**vars(self), "_step": None, "_next_cells": None}
        for name in ("input_gates", "hidden_gates"):
            if isinstance(layer := state[name], CompiledLinear):
                weight, bias = layer.unpack()
                if self._step is not None:
                    weight = _from_blocks(weight, self._dim)
                    bias = None if bias is None else _from_blocks(bias, self._dim)
                state[name] = Linear(weight, bias)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Prepare the layer for this processor."""
        vars(self).update(state)
        self._find_kernels()
        for name in ("input_gates", "hidden_gates"):
            if type(layer := state[name]) is Linear:
                setattr(self, name, self._prepare_gates(layer.weight, layer.bias))

    def run(
        self, input_gates: Iterator[TableRows], trie: Trie, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie; see `Lstm.forward`.

        Args:
            input_gates: W_ih x + b per step, float, shape (n, 4 D).
            trie: M nodes.
            state: State of each root.

        Returns:
            Hidden states, float, shape (M, P), and the state in which each sentence ended, in
            the order in which they end.
        """
        hidden, cells = state.hidden, state.cell.contiguous()
        # Lasting tensors are allocated first: between temporary ones they would fragment memory.
        hidden_states = hidden.new_empty(sum(trie.sizes), hidden.shape[1])  # (M, P)
        n_ended, largest = sum(trie.n_ended), max(trie.sizes)
        ended = LstmState(*(values.new_empty(n_ended, values.shape[1]) for values in state))
        buffers = cells.new_empty(2, largest, self._dim)  # The steps write to them in turn.
        output = hidden.new_empty(largest, self._dim, dtype=self._output)
        start = first = 0
        steps = zip(trie.sizes, trie.n_ended, trie.parents, trie.ends, strict=True)
        for step, (size, n_ends, parents, ends) in enumerate(steps):
            end, after = start + size, buffers[step % 2, :size]
            before = TableRows(cells, parents)
            # No name refers to the gates, so that their table is freed before the next is made.
            self.compute_step(
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


def _find_step(dtype: torch.dtype, hidden_dim: int) -> Kernel | None:
    """Return the function in C for whole steps in a data type, or None."""
    name = f"step_{dtype}"
    if dtype == torch.bfloat16:
        if not has_tiles() or hidden_dim % (2 * read_constant("tile")):
            return None
        name += "_tiles"
    gates = dtype, torch.int64, dtype
    return find_kernel(name, int, int, int, *gates, dtype, *_CELLS, dtype)


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


def _from_blocks(values: Tensor, dim: int) -> Tensor:
    """Undo `_to_blocks` for gates of `dim` values each."""
    blocks = values.reshape(-1, 4, read_constant("block"), *values.shape[1:]).transpose(0, 1)
    return blocks.flatten(1, 2)[:, :dim].flatten(0, 1)
