"""One LSTM layer with projection, in one direction: readable, differentiable, the truth.

Sequences come packed, as in `torch.nn.utils.rnn.PackedSequence`: sorted by
falling length, step after step, each step with only the sequences that still
run. So no padding is ever computed.

    step 0   a0 b0 c0       sizes = [3, 2, 1]
    step 1   a1 b1          rows  = a0 b0 c0 a1 b1 a2
    step 2   a2
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import Function
from torch.nn import functional

from elmo_cli.compiled.kernels import CompiledLinear, Linear, kernel, linear_kernel
from elmo_cli.errors import ElmoError
from elmo_cli.model.options import LstmOptions

FORGET_BIAS = 1.0
"""Added to the forget gate at run time; the weights in the file are without it."""


@dataclass(frozen=True)
class Packing:
    """How sentences of different lengths lie packed, step after step (see above)."""

    order: NDArray[np.int64]
    """The sentences by falling length, shape (B,)."""
    sizes: list[int]
    """The number of sentences that still run at each step, falling."""
    sentences: NDArray[np.int64]
    """The sentence of each packed row, shape (N,)."""
    positions: NDArray[np.int64]
    """The position of each packed row in its sentence, shape (N,)."""
    reversal: NDArray[np.int64]
    """The packed row with which each row changes place when every sentence is turned around,
    shape (N,)."""


def pack(lengths: Sequence[int] | NDArray[np.int64]) -> Packing:
    """Plan how sentences of the given lengths lie packed. Empty ones take no row."""
    all_lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-all_lengths, kind="stable")
    falling = all_lengths[order]
    n_steps = int(falling[0]) if len(falling) else 0
    # How many sentences are longer than 0, 1, ... steps.
    sizes = np.searchsorted(-falling, -np.arange(n_steps), side="left")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(np.arange(n_steps), sizes)
    ranks = np.arange(offsets[-1]) - offsets[positions]
    reversal = offsets[falling[ranks] - 1 - positions] + ranks
    return Packing(order, sizes.tolist(), order[ranks], positions, reversal)


class LstmState(NamedTuple):
    """What an LSTM carries from one step to the next, a row a sequence."""

    hidden: Tensor
    """Float, shape (B, P)."""
    cell: Tensor
    """Float, shape (B, D)."""


class Lstm(nn.Module):
    """An LSTM with recurrent projection (Sak et al., 2014) and clipping.

    i, j, f, o = split([x, h] W + b)
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f + 1) * c)
    h = clip((sigmoid(o) * tanh(c)) W_P)
    """

    def __init__(self, options: LstmOptions, *, projects: bool = True) -> None:
        super().__init__()
        self.options = options
        size = options.projection_dim
        self.gates = nn.Linear(size + size, 4 * options.dim)
        self.projection = nn.Linear(options.dim, size, bias=False) if projects else None

    def initial_state(self, n_sequences: int) -> LstmState:
        """The zero state for `n_sequences` sequences."""
        zeros = self.gates.weight.new_zeros
        return LstmState(
            zeros(n_sequences, self.options.projection_dim), zeros(n_sequences, self.options.dim)
        )

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState | None = None
    ) -> tuple[Tensor, LstmState]:
        """Run over packed sequences.

        Args:
            inputs: float, shape (N, P), packed.
            sizes: the number of sequences that run at each step, falling; sums to N.
            state: where each sequence starts; zero if not given.

        Returns:
            The hidden states, like the inputs, and the state in which each sequence ended.
        """
        state = state or self.initial_state(sizes[0] if sizes else 0)
        # A compiler of torch's would follow into the kernels.
        if sizes and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return self._packed(inputs, sizes, state)
        return self.by_steps(inputs, sizes, state)

    def by_steps(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """What `forward` computes, to be read."""
        hidden, cell = state
        weight_ih, weight_hh = torch.split(self.gates.weight, self.options.projection_dim, dim=1)
        # The inputs of all steps are known beforehand: one linear layer for all of them.
        input_gates = functional.linear(inputs, weight_ih)  # (N, 4 D)
        outputs, ended = [], []
        for step_gates in torch.split(input_gates, list(sizes)):
            size = len(step_gates)
            if size < len(hidden):
                ended.append(LstmState(hidden[size:], cell[size:]))
                hidden, cell = hidden[:size], cell[:size]
            # The bias goes with the hidden state: the order of additions of the reference.
            step_gates = step_gates + functional.linear(hidden, weight_hh, self.gates.bias)
            hidden, cell = self._step(step_gates, cell)  # (size, P), (size, D)
            outputs.append(hidden)
        ended.append(LstmState(hidden, cell))
        ended.reverse()  # the longest sequences, which come first, ended last
        final = LstmState(*(torch.cat(parts) for parts in zip(*ended, strict=True)))
        return torch.cat(outputs) if outputs else inputs, final

    def _packed(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """What `by_steps` computes, where gradients may be wanted: see `PackedLstm`."""
        dtype, n = autocast_dtype(inputs), sizes[0]
        to_forget = self.gates.bias.new_tensor([0.0, 0.0, FORGET_BIAS, 0.0])
        bias = self.gates.bias + to_forget.repeat_interleave(self.options.dim)
        projection = None if self.projection is None else self.projection.weight
        outputs, cells = PackedLstm.apply(  # type: ignore[no-untyped-call]
            *(values.to(dtype) for values in (inputs, state.hidden[:n])),
            state.cell[:n],
            *(
                None if values is None else values.to(dtype)
                for values in (self.gates.weight, bias, projection)
            ),
            sizes,
            tuple(bound or math.inf for bound in (self.options.cell_clip, self.options.proj_clip)),
        )
        # The last row of each sequence: sequence k runs in as many steps as have more than k.
        n_steps = np.searchsorted(-np.asarray(sizes), -np.arange(n), side="left")
        starts = np.cumsum([0, *sizes[:-1]])
        rows = torch.from_numpy(starts[n_steps - 1] + np.arange(n)).to(inputs.device)
        ended = (
            torch.cat([outputs[rows], state.hidden[n:]]),
            torch.cat([cells[rows], state.cell[n:]]),
        )
        return outputs, LstmState(*ended)

    def _step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        options = self.options
        input_gate, memory, forget_gate, output_gate = gates.chunk(4, dim=1)  # (B, D) each
        cell = (
            torch.sigmoid(input_gate) * torch.tanh(memory)
            + torch.sigmoid(forget_gate + FORGET_BIAS) * cell
        )
        cell = clip(cell, options.cell_clip)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)  # (B, D)
        if self.projection is not None:
            hidden = self.projection(hidden)  # (B, P)
        return clip(hidden, options.proj_clip), cell


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Values held within [-bound, bound]; as they are where the bound is None or 0."""
    return values.clamp(-bound, bound) if bound else values


class PackedLstm(Function):
    """What `Lstm.by_steps` computes, fast, with its gradients. It can be differentiated once.

    Forwards, the gates are kept as they are after sigmoid and tanh. Backwards, each step gives the
    gradients of its gates; that of a weight is one product over the rows of all steps:

        m = sigmoid(o) * tanh(c)
        dW = dgates^T [x, h of the step before]        dW_hr = dh^T m

    Products with the same weight at every step, and what is done to single values, are in C where
    that was compiled.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # packed, (N, P)
        hidden: Tensor,  # where the sequences start, (B, P)
        cell: Tensor,  # the same, (B, D)
        weight: Tensor,  # W_ih and W_hh side by side, (4 D, 2 P)
        bias: Tensor,  # with what is added to the forget gate, (4 D,)
        projection: Tensor | None,  # W_hr, (P, D)
        sizes: Sequence[int],  # the sequences at each step, falling from B
        clips: tuple[float, float],  # the largest value of a cell, and of a hidden state
    ) -> tuple[Tensor, Tensor]:
        """The hidden states of all steps, (N, P), and their cells, (N, D).

        All are floats; all but cells have the same type.
        """
        weight_ih, weight_hh = torch.split(weight, inputs.shape[1], dim=1)
        gates = functional.linear(inputs, weight_ih, bias)  # (N, 4 D)
        cells = cell.new_empty(len(inputs), cell.shape[1])
        memory = inputs.new_empty(cells.shape)  # m
        outputs = memory if projection is None else torch.empty_like(inputs)
        hidden_gates = _linear(weight_hh)
        project = None if projection is None else _linear(projection)
        kinds = memory.dtype, memory.dtype, cells.dtype, float, cells.dtype, memory.dtype
        step = _function("training_cells", memory, cells, *kinds) or _next_cells
        workspace = gates.new_empty(sizes[0], gates.shape[1])
        before, cells_before = hidden, cell.contiguous()
        for rows in _steps(sizes):
            size = rows.stop - rows.start
            added = hidden_gates(before[:size], workspace)
            step(gates[rows], added, cells_before[:size], clips[0], cells[rows], memory[rows])
            if project is not None:
                outputs[rows] = project(memory[rows])
            before, cells_before = outputs[rows].clamp_(-clips[1], clips[1]), cells[rows]
        ctx.save_for_backward(
            inputs, hidden, cell, weight, projection, gates, cells, memory, outputs
        )
        ctx.sizes, ctx.clips = sizes, clips
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor | None, d_cells: Tensor | None) -> Any:
        """The gradients of the floats that `forward` takes."""
        if torch.is_grad_enabled():  # they would be taken for constants
            raise ElmoError(
                "the LSTM: expected gradients that are differentiated no further, found "
                "create_graph=True; leave it out"
            )
        inputs, hidden, cell, weight, projection, gates, cells, memory, outputs = ctx.saved_tensors
        d_outputs = torch.zeros_like(outputs) if d_outputs is None else d_outputs.clone()
        weight_ih, weight_hh = torch.split(weight, inputs.shape[1], dim=1)
        hidden_gates = _linear(weight_hh.t())
        project = None if projection is None else _linear(projection.t())
        kinds = memory.dtype, memory.dtype, cells.dtype, float, *2 * (cells.dtype,), memory.dtype
        step = _function("training_gradients", memory, cells, *kinds) or _gradients
        clipped = outputs.abs() >= ctx.clips[1]  # no gradient goes through
        d_gates, d_cell, d_hidden = torch.empty_like(gates), torch.zeros_like(cell), hidden[:0]
        steps = _steps(ctx.sizes)
        cells_before = [cell, *(cells[rows] for rows in steps[:-1])]
        for rows, before in zip(reversed(steps), reversed(cells_before), strict=True):
            size = rows.stop - rows.start
            d_output = d_outputs[rows]
            d_output[: len(d_hidden)] += d_hidden
            d_output.masked_fill_(clipped[rows], 0)
            if d_cells is not None:
                d_cell[:size] += d_cells[rows]
            d_memory = d_output if project is None else project(d_output)
            values = before[:size].contiguous(), ctx.clips[0], cells[rows]
            step(gates[rows], d_memory, *values, d_cell[:size], d_gates[rows])
            d_hidden = hidden_gates(d_gates[rows])  # of the step before
        hidden_before = [hidden, *(outputs[rows] for rows in steps[:-1])]
        parts = [part[:size] for part, size in zip(hidden_before, ctx.sizes, strict=True)]
        columns = torch.cat([inputs, torch.cat(parts)], dim=1)  # (N, 2 P)
        # Gradients lie in memory as their weights do, or autograd would copy them.
        d_weight = torch.mm(d_gates.t(), columns, out=torch.empty_like(weight))
        d_projection = None
        if projection is not None:
            d_projection = torch.mm(d_outputs.t(), memory, out=torch.empty_like(projection))
        floats = d_gates @ weight_ih, d_hidden, d_cell, d_weight, d_gates.sum(dim=0), d_projection
        return *floats, None, None


def autocast_dtype(values: Tensor) -> torch.dtype:
    """The type in which products of these values are computed."""
    kind = values.device.type
    if torch.is_autocast_enabled(kind) and values.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return values.dtype


def _steps(sizes: Sequence[int]) -> list[slice]:
    """The rows of each step."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _linear(weight: Tensor) -> Linear:
    """For a weight that is used at every step."""
    is_compiled = weight.device.type == "cpu" and linear_kernel(weight.dtype) is not None
    return (CompiledLinear if is_compiled else Linear)(weight)


def _function(
    name: str, memory: Tensor, cells: Tensor, *types: type | torch.dtype
) -> Callable[..., None] | None:
    """A function in C for these types, if there is one; it takes what those below take."""
    function = kernel(f"{name}_{memory.dtype}", int, int, *types)
    if function is None or memory.device.type != "cpu" or cells.dtype != torch.float32:
        return None
    return lambda *values: function(*values[2].shape, *values)


def _next_cells(
    gates: Tensor,
    hidden_gates: Tensor,
    cells: Tensor,
    clip: float,
    new_cells: Tensor,
    memory: Tensor,
) -> None:
    """A step: gates, (n, 4 D), become those after sigmoid and tanh; cells, (n, D), and m follow."""
    i, j, f, o = gates.add_(hidden_gates).chunk(4, dim=1)
    new_cells.copy_(f.sigmoid_() * cells + i.sigmoid_() * j.tanh_()).clamp_(-clip, clip)
    memory.copy_(o.sigmoid_() * new_cells.tanh())


def _gradients(
    gates: Tensor,
    d_memory: Tensor,
    cells: Tensor,
    clip: float,
    new_cells: Tensor,
    d_cells: Tensor,
    d_gates: Tensor,
) -> None:
    """A step backwards: the gradients of new cells become those of the cells before."""
    (i, j, f, o), (d_i, d_j, d_f, d_o) = gates.chunk(4, dim=1), d_gates.chunk(4, dim=1)
    shown = new_cells.tanh()
    d_cells += d_memory * o * (1 - shown * shown)
    d_cells.masked_fill_(new_cells.abs() >= clip, 0)
    d_i.copy_(d_cells * j * i * (1 - i))
    d_j.copy_(d_cells * i * (1 - j * j))
    d_f.copy_(d_cells * cells * f * (1 - f))
    d_o.copy_(d_memory * shown * o * (1 - o))
    d_cells *= f
