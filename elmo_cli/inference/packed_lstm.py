"""LSTM over packed sequences with fast gradients, for training.

It computes what `Lstm.by_steps` computes. Its forward pass stores the gates after
sigmoid and tanh, and the memory m = sigmoid(o) * tanh(c). Its backward pass goes from
the last step to the first for the gradients of the gates. Then the gradient of a weight
is one product over the rows of all steps:

    d_weight = d_gates^T [x, h of the step before]        d_projection = d_h^T m

A name such as `d_gates` is the gradient of the loss for these values. Compiled kernels,
if there are any, compute the products that each step repeats with one weight, and the
elementwise work.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import Function
from torch.nn import functional

from elmo_cli.compiled.kernels import has_kernel, run_kernel
from elmo_cli.compiled.linear import make_linear
from elmo_cli.compiled.structures import TrainingCells, TrainingGradients, address
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState
from elmo_cli.model.placement import autocast_dtype, send


def run_packed(
    lstm: Lstm, inputs: Tensor, sizes: Sequence[int], state: LstmState
) -> tuple[Tensor, LstmState]:
    """Compute `Lstm.by_steps` with fast gradients, which can be differentiated once.

    Without gradients and under torch.compile, which cannot trace kernels, it is
    `Lstm.by_steps`.
    """
    if not sizes or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return lstm.by_steps(inputs, sizes, state)
    dtype = autocast_dtype(inputs)
    n_running = sizes[0]  # The sequences without tokens come after these.
    i, j, f, o = lstm.gates.bias.chunk(4)
    bias = torch.cat([i, j, f + FORGET_BIAS, o])
    projection = None
    if lstm.projection is not None:
        projection = lstm.projection.weight.to(dtype)
    outputs, cells = PackedLstm.apply(  # type: ignore[no-untyped-call]
        inputs.to(dtype),
        state.hidden[:n_running].to(dtype),
        state.cell[:n_running],
        lstm.gates.weight.to(dtype),
        bias.to(dtype),
        projection,
        sizes,
        lstm.architecture.cell_clip or math.inf,
        lstm.architecture.proj_clip or math.inf,
    )
    last_rows = send(torch.from_numpy(_last_rows(sizes)), inputs.device)
    # Sequences without tokens keep their states.
    return outputs, LstmState(
        hidden=torch.cat([outputs[last_rows], state.hidden[n_running:]]),
        cell=torch.cat([cells[last_rows], state.cell[n_running:]]),
    )


def _last_rows(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the last packed row of each sequence, (B,).

    For the sizes [3, 2, 1], the rows are a0 b0 c0 | a1 b1 | a2, and the last ones of
    a, b and c are [5, 4, 2].
    """
    last_rows = np.empty(sizes[0], dtype=np.int64)
    for rows in _steps(sizes):
        n_running = rows.stop - rows.start
        # A later step replaces the rows of the sequences that still run.
        last_rows[:n_running] = np.arange(rows.start, rows.stop)
    return last_rows


class _Saved(NamedTuple):
    """Tensors that the forward pass keeps for the backward pass.

    There are B sequences of N tokens, and `sizes` sequences run at each step.
    """

    inputs: Tensor
    """(N, P)."""
    hidden: Tensor
    """Initial hidden states, (B, P)."""
    cell: Tensor
    """Initial cells, (B, D)."""
    weight: Tensor
    """(4 D, 2 P)."""
    projection: Tensor | None
    """(P, D)."""
    gates: Tensor
    """Gates after sigmoid and tanh, (N, 4 D)."""
    cells: Tensor
    """(N, D)."""
    memory: Tensor
    """(N, D)."""
    outputs: Tensor
    """(N, P)."""


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
        sizes: Sequence[int],  # number of sequences at each step, descending from B
        cell_clip: float,  # maximum of a cell
        hidden_clip: float,  # maximum of a hidden state
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states, (N, P), and cells, (N, D).

        Only cells may differ in dtype.
        """
        weight_ih, weight_hh = torch.split(weight, inputs.shape[1], dim=1)
        gates = functional.linear(inputs, weight_ih, bias)  # (N, 4 D)
        cells = cell.new_empty(len(inputs), cell.shape[1])
        memory = inputs.new_empty(cells.shape)  # m
        to_gates = make_linear(weight_hh)
        if projection is None:
            outputs = memory
            project = None
        else:
            outputs = torch.empty_like(inputs)
            project = make_linear(projection)
        kernel = _training_kernel("training_cells", memory=memory, cells=cells)
        workspace = gates.new_empty(sizes[0], gates.shape[1])
        hidden_before = hidden
        cells_before = cell.contiguous()
        for rows in _steps(sizes):
            size = rows.stop - rows.start
            _compute_step(
                kernel,
                gates=gates[rows],
                hidden_gates=to_gates(hidden_before[:size], workspace),
                cells=cells_before[:size],
                clip=cell_clip,
                new_cells=cells[rows],
                memory=memory[rows],
            )
            if project is not None:
                outputs[rows] = project(memory[rows])
            hidden_before = outputs[rows].clamp_(-hidden_clip, hidden_clip)
            cells_before = cells[rows]
        saved = _Saved(
            inputs=inputs,
            hidden=hidden,
            cell=cell,
            weight=weight,
            projection=projection,
            gates=gates,
            cells=cells,
            memory=memory,
            outputs=outputs,
        )
        ctx.save_for_backward(*saved)
        ctx.sizes = sizes
        ctx.cell_clip = cell_clip
        ctx.hidden_clip = hidden_clip
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor | None, d_cells: Tensor | None) -> Any:
        """Return the gradients of the tensors that `forward` takes."""
        # A second derivative would treat these tensors as constants.
        if torch.is_grad_enabled():
            raise ElmoError(
                "the LSTM: gradients cannot be differentiated again",
                remedy="Remove create_graph=True.",
            )
        saved = _Saved(*ctx.saved_tensors)
        if d_outputs is None:
            d_unclipped = torch.zeros_like(saved.outputs)
        else:
            d_unclipped = d_outputs.clone()
        d_gates, d_start = _differentiate_steps(
            saved,
            ctx.sizes,
            d_unclipped=d_unclipped,
            d_cells=d_cells,
            cell_clip=ctx.cell_clip,
            hidden_clip=ctx.hidden_clip,
        )
        hidden_before = torch.cat(
            _values_before(first=saved.hidden, values=saved.outputs, sizes=ctx.sizes)
        )
        columns = torch.cat([saved.inputs, hidden_before], dim=1)  # (N, 2 P)
        # Without the memory layout of the weights, autograd would copy their gradients.
        d_weight = torch.mm(d_gates.t(), columns, out=torch.empty_like(saved.weight))
        d_projection = None
        if saved.projection is not None:
            d_projection = torch.mm(
                d_unclipped.t(),
                saved.memory,
                out=torch.empty_like(saved.projection),
            )
        weight_ih, _ = torch.split(saved.weight, saved.inputs.shape[1], dim=1)
        return (
            d_gates @ weight_ih,  # of the inputs
            d_start.hidden,
            d_start.cell,
            d_weight,
            d_gates.sum(dim=0),  # of the bias
            d_projection,
            None,  # The sizes and the clips have no gradients.
            None,
            None,
        )


def _differentiate_steps(
    saved: _Saved,
    sizes: Sequence[int],
    *,
    d_unclipped: Tensor,
    d_cells: Tensor | None,
    cell_clip: float,
    hidden_clip: float,
) -> tuple[Tensor, LstmState]:
    """Go from the last step to the first, and compute the gradients of the gates.

    Each step adds up the gradients of its hidden states and cells: from outside the
    LSTM, and from the later step, which read them. Then it has the gradients of the
    state that it read itself, for the earlier step.

    Args:
        saved: Tensors of the forward pass.
        sizes: Number of sequences at each step.
        d_unclipped: Gradients that the outputs have from outside the LSTM, (N, P).
            They are overwritten by the gradients of the hidden states before the clip,
            from outside and from the next step.
        d_cells: Gradients that the cells have from outside, (N, D), or None.
        cell_clip, hidden_clip: As in `PackedLstm.forward`.

    Returns:
        The gradients of the gates, (N, 4 D), and of the initial state, (B, ...).
    """
    _, weight_hh = torch.split(saved.weight, saved.inputs.shape[1], dim=1)
    to_hidden = make_linear(weight_hh.t())
    to_memory = None
    if saved.projection is not None:
        to_memory = make_linear(saved.projection.t())
    kernel = _training_kernel(
        "training_gradients", memory=saved.memory, cells=saved.cells
    )
    # Clipped values have no gradient.
    is_clipped = saved.outputs.abs() >= hidden_clip
    d_gates = torch.empty_like(saved.gates)
    # Gradients from the later step: none at the last step, and at any step none for
    # the sequences that end with it.
    d_hidden_from_later = saved.hidden[:0]  # (sequences of the later step, P)
    d_cells_from_later = torch.zeros_like(saved.cell)  # (B, D)
    steps = _steps(sizes)
    cells_before = _values_before(first=saved.cell, values=saved.cells, sizes=sizes)
    for rows, cells in zip(reversed(steps), reversed(cells_before), strict=True):
        d_hidden = d_unclipped[rows]  # a view
        d_hidden[: len(d_hidden_from_later)] += d_hidden_from_later
        d_hidden.masked_fill_(is_clipped[rows], 0)
        # A view, too. `_compute_gradients` overwrites it by the gradients of the cells
        # that this step read, so the next turn finds them in `d_cells_from_later`.
        d_step_cells = d_cells_from_later[: len(d_hidden)]
        if d_cells is not None:
            d_step_cells += d_cells[rows]
        _compute_gradients(
            kernel,
            gates=saved.gates[rows],
            d_memory=d_hidden if to_memory is None else to_memory(d_hidden),
            cells=cells.contiguous(),
            clip=cell_clip,
            new_cells=saved.cells[rows],
            d_cells=d_step_cells,
            d_gates=d_gates[rows],
        )
        d_hidden_from_later = to_hidden(d_gates[rows])
    # The first step has read the initial state.
    return d_gates, LstmState(hidden=d_hidden_from_later, cell=d_cells_from_later)


def _values_before(first: Tensor, values: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Return the values before each step, of the sequences that run in it.

    With the values a0 b0 c0 | a1 b1 | a2 of three sequences, they are: `first`, then a0
    b0, then a1.

    Args:
        first: Values before the first step, (B, ...).
        values: Values after each step, packed, (N, ...).
        sizes: Number of sequences at each step.
    """
    before = [first]
    for rows in _steps(sizes)[:-1]:
        before.append(values[rows])
    return [rows[:size] for rows, size in zip(before, sizes, strict=True)]


def _steps(sizes: Sequence[int]) -> list[slice]:
    """Return the packed rows of each step: 0:3, 3:5, 5:6 for the sizes [3, 2, 1]."""
    steps = []
    start = 0
    for size in sizes:
        steps.append(slice(start, start + size))
        start += size
    return steps


def _training_kernel(name: str, memory: Tensor, cells: Tensor) -> str | None:
    """Return the function in C for the elementwise part of a step, or None."""
    name = f"{name}_{memory.dtype}"
    if memory.device.type != "cpu" or cells.dtype != torch.float32:
        return None
    return name if has_kernel(name) else None


def _compute_step(
    kernel: str | None,
    *,
    gates: Tensor,  # W_ih x + b, (n, 4 D): overwritten by gates after sigmoid and tanh
    hidden_gates: Tensor,  # W_hh h, (n, 4 D)
    cells: Tensor,  # before the step, (n, D)
    clip: float,
    new_cells: Tensor,  # (n, D): written
    memory: Tensor,  # m, (n, D): written
) -> None:
    """Compute the elementwise part of one step, in C if there is a kernel."""
    if kernel is not None:
        n, dim = cells.shape
        arguments = TrainingCells(
            n=n,
            dim=dim,
            gates=address(gates, memory.dtype),
            hidden_gates=address(hidden_gates, memory.dtype),
            cells=address(cells, torch.float32),
            clip=clip,
            new_cells=address(new_cells, torch.float32),
            out=address(memory, memory.dtype),
        )
        run_kernel(kernel, arguments)
        return
    i, j, f, o = gates.add_(hidden_gates).chunk(4, dim=1)  # (n, D) each
    kept = f.sigmoid_() * cells
    added = i.sigmoid_() * j.tanh_()
    new_cells.copy_(kept + added)
    new_cells.clamp_(-clip, clip)
    memory.copy_(o.sigmoid_() * new_cells.tanh())


def _compute_gradients(
    kernel: str | None,
    *,
    gates: Tensor,  # as `_compute_step` wrote them, (n, 4 D)
    d_memory: Tensor,  # (n, D)
    cells: Tensor,  # before the step, (n, D)
    clip: float,
    new_cells: Tensor,  # (n, D)
    d_cells: Tensor,  # of the new cells, (n, D): overwritten by those of the old cells
    d_gates: Tensor,  # (n, 4 D): written
) -> None:
    """Compute the elementwise part of one backward step, in C if there is a kernel."""
    if kernel is not None:
        n, dim = cells.shape
        arguments = TrainingGradients(
            n=n,
            dim=dim,
            gates=address(gates, d_gates.dtype),
            out_gradients=address(d_memory, d_gates.dtype),
            cells=address(cells, torch.float32),
            clip=clip,
            new_cells=address(new_cells, torch.float32),
            cell_gradients=address(d_cells, torch.float32),
            gate_gradients=address(d_gates, d_gates.dtype),
        )
        run_kernel(kernel, arguments)
        return
    i, j, f, o = gates.chunk(4, dim=1)
    d_i, d_j, d_f, d_o = d_gates.chunk(4, dim=1)
    tanh_cells = new_cells.tanh()
    d_cells += d_memory * o * (1 - tanh_cells * tanh_cells)
    d_cells.masked_fill_(new_cells.abs() >= clip, 0)
    d_i.copy_(d_cells * j * i * (1 - i))
    d_j.copy_(d_cells * i * (1 - j * j))
    d_f.copy_(d_cells * cells * f * (1 - f))
    d_o.copy_(d_memory * tanh_cells * o * (1 - o))
    d_cells *= f
