"""One LSTM layer with projection, in one direction: the differentiable reference.

Sequences are packed, as in `torch.nn.utils.rnn.PackedSequence`: the longest sequence comes first,
and rows are stored step after step. Each step has only the sequences that still run, so that no
padding is computed.

    step 0   a0 b0 c0       sizes = [3, 2, 1]
    step 1   a1 b1          rows  = a0 b0 c0 a1 b1 a2
    step 2   a2

`Lstm.by_steps` is the readable version. `PackedLstm` is the same function with fast gradients. Its
forward pass stores the gates after sigmoid and tanh. In its backward pass, each step computes the
gradients of its gates, and the gradient of a weight is one product over the rows of all steps:

    m = sigmoid(o) * tanh(c)
    dW = dgates^T [x, h of the step before]        dW_hr = dh^T m

Compiled kernels, if there are any, compute the products that each step repeats with one weight,
and the elementwise work.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import Function
from torch.nn import functional

from elmo_cli.compiled.kernels import find_kernel
from elmo_cli.compiled.linear import make_linear
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.model.options import LstmOptions
from elmo_cli.model.packing import _steps

FORGET_BIAS = 1.0  # added to the forget gate at run time, not in the file


class LstmState(NamedTuple):
    """Tensors that an LSTM carries from one step to the next, one row per sequence."""

    hidden: Tensor  # float, (B, P)
    cell: Tensor  # float, (B, D)


class PackedLstm(Function):
    """LSTM over packed sequences. It can be differentiated once."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # packed, (N, P)
        hidden: Tensor,  # initial hidden states, (B, P)
        cell: Tensor,  # initial cells, (B, D)
        weight: Tensor,  # W_ih and W_hh side by side, (4 D, 2 P)
        bias: Tensor,  # including FORGET_BIAS, (4 D,)
        projection: Tensor | None,  # W_hr, (P, D)
        sizes: Sequence[
            int
        ],  # number of sequences at each step, in descending order from B
        clips: tuple[float, float],  # maximum of a cell, and of a hidden state
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states, (N, P), and cells, (N, D). Only cells may differ in dtype."""
        weight_ih, weight_hh = torch.split(weight, inputs.shape[1], dim=1)
        gates = functional.linear(inputs, weight_ih, bias)  # (N, 4 D)
        cells = cell.new_empty(len(inputs), cell.shape[1])
        memory = inputs.new_empty(cells.shape)  # m
        outputs = memory if projection is None else torch.empty_like(inputs)
        hidden_gates = make_linear(weight_hh)
        project = None if projection is None else make_linear(projection)
        kinds = (
            memory.dtype,
            memory.dtype,
            cells.dtype,
            float,
            cells.dtype,
            memory.dtype,
        )
        step = _find_step("training_cells", memory, cells, *kinds) or _next_cells
        workspace = gates.new_empty(sizes[0], gates.shape[1])
        before, cells_before = hidden, cell.contiguous()
        for rows in _steps(sizes):
            size = rows.stop - rows.start
            added = hidden_gates(before[:size], workspace)
            step(
                gates[rows],
                added,
                cells_before[:size],
                clips[0],
                cells[rows],
                memory[rows],
            )
            if project is not None:
                outputs[rows] = project(memory[rows])
            before, cells_before = (
                outputs[rows].clamp_(-clips[1], clips[1]),
                cells[rows],
            )
        results = gates, cells, memory, outputs
        ctx.save_for_backward(inputs, hidden, cell, weight, projection, *results)
        ctx.sizes, ctx.clips = sizes, clips
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor | None, d_cells: Tensor | None) -> Any:
        """Return the gradients of the float arguments of `forward`."""
        if (
            torch.is_grad_enabled()
        ):  # A second derivative would treat these tensors as constants.
            problem = "the LSTM: gradients cannot be differentiated again"
            raise ElmoError(f"{problem}. Remove create_graph=True.")
        inputs, hidden, cell, weight, projection, gates, cells, memory, outputs = (
            ctx.saved_tensors
        )
        d_outputs = (
            torch.zeros_like(outputs) if d_outputs is None else d_outputs.clone()
        )
        weight_ih, weight_hh = torch.split(weight, inputs.shape[1], dim=1)
        hidden_gates = make_linear(weight_hh.t())
        project = None if projection is None else make_linear(projection.t())
        kinds = (
            memory.dtype,
            memory.dtype,
            cells.dtype,
            float,
            *2 * (cells.dtype,),
            memory.dtype,
        )
        step = _find_step("training_gradients", memory, cells, *kinds) or _gradients
        clipped = outputs.abs() >= ctx.clips[1]  # Clipped values have no gradient.
        d_gates, d_cell, d_hidden = (
            torch.empty_like(gates),
            torch.zeros_like(cell),
            hidden[:0],
        )
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
            d_hidden = hidden_gates(d_gates[rows])  # gradient of the previous step
        hidden_before = [hidden, *(outputs[rows] for rows in steps[:-1])]
        parts = [
            part[:size] for part, size in zip(hidden_before, ctx.sizes, strict=True)
        ]
        columns = torch.cat([inputs, torch.cat(parts)], dim=1)  # (N, 2 P)
        # Without the memory layout of the weights, autograd would copy their gradients.
        d_weight = torch.mm(d_gates.t(), columns, out=torch.empty_like(weight))
        d_projection = None
        if projection is not None:
            d_projection = torch.mm(
                d_outputs.t(), memory, out=torch.empty_like(projection)
            )
        floats = (
            d_gates @ weight_ih,
            d_hidden,
            d_cell,
            d_weight,
            d_gates.sum(dim=0),
            d_projection,
        )
        return *floats, None, None


def send(values: Tensor, device: torch.device) -> Tensor:
    """Move new values to a device. Do not wait for CUDA, which copies the memory at once."""
    return values.to(device, non_blocking=device.type == "cuda")


def autocast_dtype(values: Tensor) -> torch.dtype:
    """Return the data type in which products of these values are computed, also under autocast."""
    kind = values.device.type
    if torch.is_autocast_enabled(kind) and values.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return values.dtype


def _find_step(
    name: str, memory: Tensor, cells: Tensor, *types: type | torch.dtype
) -> Callable[..., None] | None:
    """Return the kernel that replaces `_next_cells` or `_gradients` for these types, or None."""
    function = find_kernel(f"{name}_{memory.dtype}", int, int, *types)
    if function is None or memory.device.type != "cpu" or cells.dtype != torch.float32:
        return None
    return lambda *values: function(*values[2].shape, *values)


def _next_cells(
    gates: Tensor,
    added: Tensor,
    cells: Tensor,
    clip: float,
    new_cells: Tensor,
    memory: Tensor,
) -> None:
    """Compute one step in place: gates, (n, 4 D), after sigmoid and tanh; cells, (n, D); and m."""
    i, j, f, o = gates.add_(added).chunk(4, dim=1)
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
    """Compute one backward step: turn gradients of new cells into gradients of the old cells."""
    (i, j, f, o), (d_i, d_j, d_f, d_o) = gates.chunk(4, dim=1), d_gates.chunk(4, dim=1)
    shown = new_cells.tanh()
    d_cells += d_memory * o * (1 - shown * shown)
    d_cells.masked_fill_(new_cells.abs() >= clip, 0)
    d_i.copy_(d_cells * j * i * (1 - i))
    d_j.copy_(d_cells * i * (1 - j * j))
    d_f.copy_(d_cells * cells * f * (1 - f))
    d_o.copy_(d_memory * shown * o * (1 - o))
    d_cells *= f


class Lstm(nn.Module):
    """An LSTM with recurrent projection (Sak et al., 2014) and clipping.

    i, j, f, o = split([x, h] W + b)
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f + 1) * c)
    h = clip((sigmoid(o) * tanh(c)) W_P)
    """

    def __init__(self, options: LstmOptions, *, projects: bool = True) -> None:
        super().__init__()
        self.options = options
        size, dim = options.projection_dim, options.dim
        self.gates = nn.Linear(2 * size, 4 * dim)
        self.projection = nn.Linear(dim, size, bias=False) if projects else None

    def initial_state(self, n_sequences: int) -> LstmState:
        """Return the zero state for `n_sequences` sequences."""
        dims = self.options.projection_dim, self.options.dim
        return LstmState(
            *(self.gates.weight.new_zeros(n_sequences, dim) for dim in dims)
        )

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState | None = None
    ) -> tuple[Tensor, LstmState]:
        """Run over packed sequences, float, (N, P), from their states. None is the zero state.

        Return the hidden states, (N, P), and the state at the end of each sequence.
        """
        state = state or self.initial_state(sizes[0] if sizes else 0)
        # torch.compile cannot trace the kernels.
        if sizes and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return self._packed(inputs, sizes, state)
        return self.by_steps(inputs, sizes, state)

    def by_steps(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Compute `forward` step by step: the readable version."""
        hidden, cell = state
        weight_ih, weight_hh = torch.split(
            self.gates.weight, self.options.projection_dim, dim=1
        )
        # The inputs of all steps are known, so that one product serves them all.
        input_gates = functional.linear(inputs, weight_ih)  # (N, 4 D)
        outputs, ended = [], []
        for step_gates in torch.split(input_gates, list(sizes)):
            size = len(step_gates)
            if size < len(hidden):
                ended.append(LstmState(hidden[size:], cell[size:]))
                hidden, cell = hidden[:size], cell[:size]
            # AllenNLP adds the bias to this product, too. The order of additions changes the bits.
            step_gates = step_gates + functional.linear(
                hidden, weight_hh, self.gates.bias
            )
            hidden, cell = self._step(step_gates, cell)  # (size, P), (size, D)
            outputs.append(hidden)
        ended.append(LstmState(hidden, cell))
        ended.reverse()  # The longest sequences come first and ended last.
        final = LstmState(*(torch.cat(parts) for parts in zip(*ended, strict=True)))
        return torch.cat(outputs) if outputs else inputs, final

    def _packed(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Compute `by_steps` with efficient gradients: see `PackedLstm`."""
        dtype, n = autocast_dtype(inputs), sizes[0]
        i, j, f, o = self.gates.bias.chunk(4)
        bias = torch.cat([i, j, f + FORGET_BIAS, o])
        outputs, cells = PackedLstm.apply(  # type: ignore[no-untyped-call]
            inputs.to(dtype),
            state.hidden[:n].to(dtype),
            state.cell[:n],
            self.gates.weight.to(dtype),
            bias.to(dtype),
            None if self.projection is None else self.projection.weight.to(dtype),
            sizes,
            (self.options.cell_clip or math.inf, self.options.proj_clip or math.inf),
        )
        # Sequence k runs in each step that has more than k sequences. `rows` are the last of them.
        n_steps = np.searchsorted(-np.asarray(sizes), -np.arange(n), side="left")
        starts = np.cumsum([0, *sizes[:-1]])
        rows = send(torch.from_numpy(starts[n_steps - 1] + np.arange(n)), inputs.device)
        hidden = torch.cat([outputs[rows], state.hidden[n:]])
        return outputs, LstmState(hidden, torch.cat([cells[rows], state.cell[n:]]))

    def _step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        options = self.options
        input_gate, memory, forget_gate, output_gate = gates.chunk(
            4, dim=1
        )  # (B, D) each
        added = torch.sigmoid(input_gate) * torch.tanh(memory)
        cell = clip(
            added + torch.sigmoid(forget_gate + FORGET_BIAS) * cell, options.cell_clip
        )
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)  # (B, D)
        if self.projection is not None:
            hidden = self.projection(hidden)  # (B, P)
        return clip(hidden, options.proj_clip), cell


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Clip values to [-bound, bound]. Return them unchanged if the bound is None or 0."""
    return values.clamp(-bound, bound) if bound else values
