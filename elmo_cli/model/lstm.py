"""One LSTM layer with projection, in one direction: the readable, differentiable reference.

Sequences are packed, as in `torch.nn.utils.rnn.PackedSequence`: the longest sequence comes first,
and rows are stored step after step. Each step has only the sequences that still run, so that no
padding is computed.

    step 0   a0 b0 c0       sizes = [3, 2, 1]
    step 1   a1 b1          rows  = a0 b0 c0 a1 b1 a2
    step 2   a2
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.model.options import LstmOptions
from elmo_cli.model.packed_lstm import PackedLstm, autocast_dtype

FORGET_BIAS = 1.0
"""Number that is added to the forget gate at run time. The bias in the file excludes it."""


@dataclass(frozen=True)
class Packing:
    """Layout of sentences of different lengths, packed step after step (see above)."""

    order: NDArray[np.int64]
    """Indices of the sentences, the longest first, shape (B,)."""
    sizes: list[int]
    """Number of sentences that still run at each step, in descending order."""
    sentences: NDArray[np.int64]
    """Sentence of each packed row, shape (N,)."""
    positions: NDArray[np.int64]
    """Position of each packed row in its sentence, shape (N,)."""
    reversal: NDArray[np.int64]
    """Packed row that each row is swapped with when every sentence is reversed, shape (N,)."""


def pack(lengths: Sequence[int] | NDArray[np.int64]) -> Packing:
    """Return the packed layout of sentences of the given lengths. Empty sentences take no row."""
    all_lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-all_lengths, kind="stable")
    ordered = all_lengths[order]
    n_steps = int(ordered[0]) if len(ordered) else 0
    # Number of sentences that are longer than 0, 1, ... tokens.
    sizes = np.searchsorted(-ordered, -np.arange(n_steps), side="left")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(np.arange(n_steps), sizes)
    ranks = np.arange(offsets[-1]) - offsets[positions]
    reversal = offsets[ordered[ranks] - 1 - positions] + ranks
    return Packing(order, sizes.tolist(), order[ranks], positions, reversal)


class LstmState(NamedTuple):
    """Tensors that an LSTM carries from one step to the next, one row per sequence."""

    hidden: Tensor
    """float, shape (B, P)."""
    cell: Tensor
    """float, shape (B, D)."""


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
        """Return the zero state for `n_sequences` sequences."""
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
            sizes: Number of sequences that run at each step, in descending order. They sum to N.
            state: State in which each sequence starts. None is the zero state.

        Returns:
            The hidden states, shaped like the inputs, and the state at the end of each sequence.
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
        weight_ih, weight_hh = torch.split(self.gates.weight, self.options.projection_dim, dim=1)
        # The inputs of all steps are known, so that one product serves them all.
        input_gates = functional.linear(inputs, weight_ih)  # (N, 4 D)
        outputs, ended = [], []
        for step_gates in torch.split(input_gates, list(sizes)):
            size = len(step_gates)
            if size < len(hidden):
                ended.append(LstmState(hidden[size:], cell[size:]))
                hidden, cell = hidden[:size], cell[:size]
            # AllenNLP adds the bias to this product, too. The order of additions changes the bits.
            step_gates = step_gates + functional.linear(hidden, weight_hh, self.gates.bias)
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
        # Sequence k runs in each step that has more than k sequences. `rows` are the last of them.
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
    """Clip values to [-bound, bound]. Return them unchanged if the bound is None or 0."""
    return values.clamp(-bound, bound) if bound else values
