"""Fast LSTM layer, which computes `Lstm.by_steps` over a trie, without gradients.

    i, j, f, o = gates = W_ih x + W_hh h + b
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f) * c)
    h = clip(W_hr (sigmoid(o) * tanh(c)))

W_ih x + b is computed for several steps at once, before they run (`input_gates`). Equal
beginnings of sentences are computed once (`Trie`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo_cli.compiled.kernels import (
    has_kernel,
    has_tiles,
    read_constant,
    run_kernel,
)
from elmo_cli.compiled.linear import CompiledLinear, Linear, gates_block, make_linear
from elmo_cli.compiled.structures import Cells, Step, Steps, Strides, address
from elmo_cli.inference.device import compute_into, copy_rows
from elmo_cli.inference.gate_blocks import from_blocks, to_blocks
from elmo_cli.inference.input_gates import StepGates, TableRows
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.prepared_linear import prepare_linear
from elmo_cli.inference.trie import Trie
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState


class LstmKernels(NamedTuple):
    """Names of the functions in C that a layer uses; None where torch computes."""

    steps: str | None = None
    """Function for several whole steps, with their projections."""
    step: str | None = None
    """Function for a whole step up to its projection."""
    cells: str | None = None
    """Function for the elementwise part of a step."""

    def use_blocks(self) -> bool:
        """Return whether the gates must be in blocks; see `gate_blocks`."""
        return self.steps is not None or self.step is not None


@dataclass
class _Run:
    """A run over a trie of M nodes: its results, its progress and its memory."""

    trie: Trie
    hidden: Tensor
    """Hidden states of all nodes, float, (M, P)."""
    ended: LstmState
    """States at the ends of sentences, in the order of the ends."""
    before: LstmState
    """State before the next step: of the roots, or of the last step."""
    parent_hidden: Tensor
    """Hidden states of a step's parents, float, (n, P)."""
    output: Tensor
    """Inputs of a step's projection, float, (n, D)."""
    cells: tuple[Tensor, Tensor]
    """Memory for the cells after a step, float32, (n, D) each; see `cells_after`."""
    rounded: Tensor | None
    """Memory for the inputs of a step's projection in int16: 2 n D bytes, or None."""
    row_scales: Tensor | None
    """Memory for the scales of rows of whole numbers, float32, (n,), or None."""
    n_steps: int = 0
    """Steps that are done."""
    n_nodes: int = 0
    """Nodes of these steps."""
    n_ended: int = 0
    """Sentences that ended at these steps."""

    def cells_after(self, step: int) -> Tensor:
        """Return the memory for the cells after a step.

        Steps use the two tensors in turn, because a step reads the cells that the step
        before wrote.
        """
        return self.cells[step % 2]


class FastLstm:
    """LSTM layer in one direction, prepared for inference on a device, in a precision.

    In float32, and in bfloat16 with AMX, a kernel computes whole steps, so that the
    gates are still in a core's cache when they become cells. For this they are in
    blocks: see `gate_blocks`.
    """

    def __init__(
        self, lstm: Lstm, types: ComputeTypes, kernels: LstmKernels | None = None
    ) -> None:
        """Prepare a layer. By default, it uses all kernels that this processor has."""
        self._types = types
        self._dim = lstm.architecture.dim
        self._hidden_dim = lstm.architecture.projection_dim
        self._cell_clip = lstm.architecture.cell_clip or math.inf
        self._hidden_clip = lstm.architecture.proj_clip or math.inf
        # data type of the inputs of the projection
        self._output_dtype = types.values
        self._project: Linear | None = None
        if lstm.projection is not None:
            weight = lstm.projection.weight.detach().to(types.device)
            self._project = prepare_linear(
                weight, bias=None, dtype=types.weights, values=types.values
            )
            if types.weights.is_floating_point:
                self._output_dtype = types.weights
        self.kernels = self._find_kernels() if kernels is None else kernels
        bias = lstm.gates.bias.detach().clone()
        _, _, forget_bias, _ = bias.chunk(4)  # a view
        forget_bias += FORGET_BIAS
        weight_ih, weight_hh = torch.split(
            lstm.gates.weight.detach(), lstm.architecture.projection_dim, dim=1
        )
        self.input_gates = self._prepare_gates(weight_ih, bias=bias)
        self.hidden_gates = self._prepare_gates(weight_hh, bias=None)

    def _find_kernels(self) -> LstmKernels:
        """Find the functions in C that were compiled for this layer and processor."""
        if self._types.device.type != "cpu":
            return LstmKernels()
        dtype = self._types.values
        steps = None
        step = None
        if self._types.weights == torch.int16 and self._project is not None:
            steps = f"steps_{self._types.gate_weights}"
        elif self._types.weights == self._types.gate_weights == dtype:
            step = _whole_step_kernel("step", dtype, [self._hidden_dim])
            if self._project is not None:
                steps = _whole_step_kernel(
                    "steps", dtype, [self._hidden_dim, self._dim]
                )
        cells = f"cells_{dtype}_to_{self._output_dtype}"
        return LstmKernels(
            steps=steps, step=step, cells=cells if has_kernel(cells) else None
        )

    def _prepare_gates(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Make a layer for gates from weights, (4 D, P), and a bias, (4 D,)."""
        if self.kernels.use_blocks():
            weight = to_blocks(weight)
            bias = None if bias is None else to_blocks(bias).flatten()
        else:
            weight = weight.to(self._types.device)
            bias = None if bias is None else bias.to(self._types.device)
        return prepare_linear(
            weight, bias=bias, dtype=self._types.gate_weights, values=self._types.values
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state, with the size of the blocks that the gates are in."""
        return {**vars(self), "block": self._block()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle, perhaps from a processor that has other kernels.

        Each linear layer has already restored itself: as a `CompiledLinear` if it was
        one and this processor has the kernel, else as a `Linear`. A `Linear` may
        become faster here, and gates may need other blocks.
        """
        pickled_block = state.pop("block")
        vars(self).update(state)
        self.kernels = self._find_kernels()
        if type(self._project) is Linear:
            self._project = make_linear(self._project.weight, self._project.bias)
        self.input_gates = self._restore_gates(self.input_gates, pickled_block)
        self.hidden_gates = self._restore_gates(self.hidden_gates, pickled_block)

    def _restore_gates(self, layer: Linear, pickled_block: int | None) -> Linear:
        """Return the gates of a pickle as this processor's kernels read them.

        `pickled_block` is what `_block` returned on the other processor.
        """
        if type(layer) is CompiledLinear and pickled_block == self._block():
            return layer
        if type(layer) not in (Linear, CompiledLinear):
            # Rounded layers have no blocks, and those of integers always the same.
            return layer
        weight, bias = layer.unpack()
        if pickled_block is not None:
            weight = from_blocks(weight, dim=self._dim, n=pickled_block)
            if bias is not None:
                bias = from_blocks(bias, dim=self._dim, n=pickled_block)
        return self._prepare_gates(weight, bias)

    def _block(self) -> int | None:
        """Return the number of cells in a block of gates, or None without blocks."""
        return read_constant("block") if self.kernels.use_blocks() else None

    def compute_gates(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Compute W_ih x + b for `StepGates.table`; see `Linear.__call__`."""
        if self.kernels.steps is None:
            return self.input_gates(inputs, workspace)
        assert isinstance(self.input_gates, CompiledLinear)
        return self.input_gates.multiply_to_blocks(inputs, workspace)

    def run(
        self, input_gates: Iterator[StepGates], trie: Trie, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie of M nodes.

        Args:
            input_gates: Gates of all steps, from `compute_input_gates`.
            trie: The trie.
            state: States of its roots.

        Returns:
            Hidden states, float, shape (M, P), and the final states, in the order of
            the ends.
        """
        run = self._start_run(trie, state)
        for gates in input_gates:
            if self.kernels.steps is None:
                self._run_in_turn(gates, run)
            else:
                self._run_at_once(gates, run, self.kernels.steps)
            del gates  # Its table is freed before the next is made.
        return run.hidden, run.ended

    def _start_run(self, trie: Trie, state: LstmState) -> _Run:
        """Allocate the memory for a run.

        Lasting tensors come first, to limit fragmentation.
        """
        hidden = state.hidden.new_empty(len(trie.parents), self._hidden_dim)  # (M, P)
        ended = LstmState(
            hidden=state.hidden.new_empty(len(trie.ends), state.hidden.shape[1]),
            cell=state.cell.new_empty(len(trie.ends), state.cell.shape[1]),
        )
        n_nodes = max(trie.sizes)
        width = self._dim
        if self.kernels.steps is not None:
            width = self.input_gates.n_outputs // 4  # of whole blocks
        cells = state.cell.new_empty(2, n_nodes, width)
        parent_hidden = state.hidden.new_empty(n_nodes, self._hidden_dim)
        output = state.hidden.new_empty(n_nodes, self._dim, dtype=self._output_dtype)
        rounded = None
        row_scales = None
        if self._types.weights == torch.int16:
            rounded = state.cell.new_empty(n_nodes, math.ceil(self._dim / 2))
            row_scales = state.cell.new_empty(n_nodes)
        return _Run(
            trie=trie,
            hidden=hidden,
            ended=ended,
            before=LstmState(state.hidden.contiguous(), state.cell.contiguous()),
            parent_hidden=parent_hidden,
            output=output,
            cells=(cells[0], cells[1]),
            rounded=rounded,
            row_scales=row_scales,
        )

    def _run_at_once(self, gates: StepGates, run: _Run, kernel: str) -> None:
        """Run consecutive steps by one call of C.

        C writes the n cells after a step in blocks: (blocks, n, cells per block).
        Therefore the tensors of cells have as many values as their shapes say, but
        only C knows their order.
        """
        assert isinstance(self.hidden_gates, CompiledLinear)
        assert isinstance(self._project, CompiledLinear)
        first_step = run.n_steps
        end_step = first_step + len(gates.sizes)
        n_ended = run.trie.n_ended[first_step:end_step]
        nodes = slice(run.n_nodes, run.n_nodes + sum(gates.sizes))
        ends = slice(run.n_ended, run.n_ended + sum(n_ended))
        block = read_constant("block")
        if first_step == 0:
            # The cells of the roots come from torch: (n, D).
            cell_strides = Strides(row=self._dim, block=block)
        else:
            n_nodes_before = len(run.before.cell)
            cell_strides = Strides(row=block, block=block * n_nodes_before)
        dtype = self._types.values
        # C reads the lists from these tensors.
        sizes = torch.tensor(gates.sizes, dtype=torch.int64, device="cpu")
        n_ended_tensor = torch.tensor(n_ended, dtype=torch.int64, device="cpu")
        arguments = Steps(
            n_steps=len(gates.sizes),
            dim=self._dim,
            hidden_dim=self._hidden_dim,
            n_gates=gates.table.shape[1],
            sizes=address(sizes, torch.int64),
            input_gates=address(gates.table, dtype),
            input_rows=address(gates.rows, torch.int64),
            hidden=address(run.before.hidden, dtype),
            cells=address(run.before.cell, torch.float32),
            strides=cell_strides,
            parents=address(run.trie.parents[nodes], torch.int64),
            weights=address(self.hidden_gates.weight, self._types.gate_weights),
            projection=address(self._project.weight, self._types.weights),
            cell_clip=self._cell_clip,
            hidden_clip=self._hidden_clip,
            parent_hidden=address(run.parent_hidden, dtype),
            out=address(run.output, dtype),
            # C counts the steps of this call from 0.
            even_cells=address(run.cells_after(first_step), torch.float32),
            odd_cells=address(run.cells_after(first_step + 1), torch.float32),
            new_hidden=address(run.hidden[nodes], dtype),
            n_ended=address(n_ended_tensor, torch.int64),
            ends=address(run.trie.ends[ends], torch.int64),
            ended_hidden=address(run.ended.hidden[ends], dtype),
            ended_cells=address(run.ended.cell[ends], torch.float32),
            gate_scales=self.hidden_gates.scales(run.row_scales),
            projection_scales=self._project.scales(run.row_scales),
            rounded=address(run.rounded, torch.float32),
            row_scales=address(run.row_scales, torch.float32),
        )
        run_kernel(kernel, arguments)
        n_last_nodes = gates.sizes[-1]
        run.before = LstmState(
            hidden=run.hidden[nodes.stop - n_last_nodes : nodes.stop],
            cell=run.cells_after(end_step - 1)[:n_last_nodes],
        )
        run.n_steps = end_step
        run.n_nodes = nodes.stop
        run.n_ended = ends.stop

    def _run_in_turn(self, gates: StepGates, run: _Run) -> None:
        """Run consecutive steps one after the other."""
        for inputs, size in zip(gates.split(), gates.sizes, strict=True):
            nodes = slice(run.n_nodes, run.n_nodes + size)
            parents = run.trie.parents[nodes]
            hidden = run.hidden[nodes]
            cells = run.cells_after(run.n_steps)[:size]
            output = run.output[:size]
            parent_hidden = run.parent_hidden[:size]
            copy_rows(out=parent_hidden, table=run.before.hidden, rows=parents)
            self.compute_step(
                inputs,
                hidden=parent_hidden,
                cells=TableRows(run.before.cell, parents),
                after=cells,
                out=output,
            )
            projected = output if self._project is None else self._project(output)
            compute_into(
                hidden, torch.clamp, projected, -self._hidden_clip, self._hidden_clip
            )
            del projected  # Its memory is free for the next step.
            ends = slice(run.n_ended, run.n_ended + run.trie.n_ended[run.n_steps])
            if ends.stop > ends.start:
                rows = run.trie.ends[ends]
                copy_rows(out=run.ended.hidden[ends], table=hidden, rows=rows)
                copy_rows(out=run.ended.cell[ends], table=cells, rows=rows)
            run.before = LstmState(hidden, cells)
            run.n_steps += 1
            run.n_nodes = nodes.stop
            run.n_ended = ends.stop

    def compute_step(
        self,
        input_gates: TableRows,
        hidden: Tensor,
        cells: TableRows,
        after: Tensor,
        out: Tensor,
    ) -> None:
        """Compute one step for n nodes, up to the projection.

        Args:
            input_gates: W_ih x + b, float, shape (n, 4 D).
            hidden: Hidden states before the step, float, shape (n, P).
            cells: Cells before the step, float32, shape (n, D).
            after: Cells after the step, float32, shape (n, D): written.
            out: Inputs of the projection, float, shape (n, D): written.
        """
        if self.kernels.step is not None:
            self._compute_whole_step(
                self.kernels.step,
                input_gates,
                hidden=hidden,
                cells=cells,
                after=after,
                out=out,
            )
            return
        hidden_gates = self.hidden_gates(hidden)  # (n, 4 D)
        if self.kernels.cells is not None:
            self._compute_cells(
                self.kernels.cells,
                input_gates,
                hidden_gates=hidden_gates,
                cells=cells,
                after=after,
                out=out,
            )
            return
        gates = hidden_gates.add_(input_gates.values()).float()
        i, j, f, o = gates.chunk(4, dim=1)  # (n, D) each
        compute_into(after, torch.mul, cells.values(), f.sigmoid_())
        after.addcmul_(i.sigmoid_(), j.tanh_())
        after.clamp_(-self._cell_clip, self._cell_clip)
        out.copy_(after.tanh().mul_(o.sigmoid_()))

    def _compute_whole_step(
        self,
        kernel: str,
        input_gates: TableRows,
        *,
        hidden: Tensor,
        cells: TableRows,
        after: Tensor,
        out: Tensor,
    ) -> None:
        """Compute `compute_step` by a function in C."""
        assert isinstance(self.hidden_gates, CompiledLinear)
        n, dim = out.shape
        dtype = self._types.values
        block = read_constant("block")
        arguments = Step(
            n=n,
            dim=dim,
            n_units=self.hidden_gates.weight.shape[1],
            input_gates=address(input_gates.table, dtype),
            input_rows=address(input_gates.rows, torch.int64),
            hidden=address(hidden, dtype),
            weights=address(self.hidden_gates.weight, dtype),
            cells=address(cells.table, torch.float32),
            cell_rows=address(cells.rows, torch.int64),
            clip=self._cell_clip,
            new_cells=address(after, torch.float32),
            out=address(out, dtype),
            gate_strides=Strides(row=self.input_gates.n_outputs, block=gates_block()),
            cell_strides=Strides(row=dim, block=block),
            new_strides=Strides(row=dim, block=block),
            scales=self.hidden_gates.scales(None),
        )
        run_kernel(kernel, arguments)

    def _compute_cells(
        self,
        kernel: str,
        input_gates: TableRows,
        *,
        hidden_gates: Tensor,
        cells: TableRows,
        after: Tensor,
        out: Tensor,
    ) -> None:
        """Compute the elementwise part of `compute_step` by a function in C.

        `hidden_gates` are W_hh h, float, shape (n, 4 D).
        """
        n, dim = out.shape
        dtype = self._types.values
        arguments = Cells(
            n=n,
            dim=dim,
            input_gates=address(input_gates.table, dtype),
            input_rows=address(input_gates.rows, torch.int64),
            hidden_gates=address(hidden_gates, dtype),
            cells=address(cells.table, torch.float32),
            cell_rows=address(cells.rows, torch.int64),
            clip=self._cell_clip,
            new_cells=address(after, torch.float32),
            out=address(out, self._output_dtype),
        )
        run_kernel(kernel, arguments)


def _whole_step_kernel(
    name: str, dtype: torch.dtype, widths: Sequence[int]
) -> str | None:
    """Return a function in C for whole steps, or None.

    Args:
        name: `step` or `steps`.
        dtype: Data type of all weights and values.
        widths: Sizes of the inputs of its products.
    """
    name = f"{name}_{dtype}"
    if dtype == torch.bfloat16:
        if not has_tiles():
            return None
        # Rows of the inputs must consist of whole tiles.
        values_per_tile = 2 * read_constant("tile")
        if any(width % values_per_tile != 0 for width in widths):
            return None
        name = f"{name}_tiles"
    return name if has_kernel(name) else None
