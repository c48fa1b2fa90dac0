"""One LSTM layer with projection, in one direction: the readable reference.

Sequences are packed: see `packing`. `inference/packed_lstm.py` has the same function
with fast gradients, and `inference/fast_lstm.py` without gradients.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.model.architecture import LstmArchitecture

FORGET_BIAS = 1.0
"""Added to the forget gate at run time, not in the file."""


class LstmState(NamedTuple):
    """Tensors that an LSTM carries from one step to the next, one row per sequence."""

    hidden: Tensor
    """Float, (B, P)."""
    cell: Tensor
    """Float, (B, D)."""


RunLstm: TypeAlias = Callable[
    ["Lstm", Tensor, Sequence[int], LstmState], tuple[Tensor, LstmState]
]
"""Function that computes what `Lstm.by_steps` computes, from the same arguments."""


class Lstm(nn.Module):
    """An LSTM with recurrent projection (Sak et al., 2014) and clipping.

    i, j, f, o = split([x, h] W + b)
    c = clip(sigmoid(i) * tanh(j) + sigmoid(f + 1) * c)
    h = clip((sigmoid(o) * tanh(c)) W_P)
    """

    def __init__(
        self, architecture: LstmArchitecture, *, projects: bool = True
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.gates = nn.Linear(2 * architecture.projection_dim, 4 * architecture.dim)
        self.projection: nn.Linear | None = None
        if projects:
            self.projection = nn.Linear(
                architecture.dim, architecture.projection_dim, bias=False
            )

    def initial_state(self, n_sequences: int) -> LstmState:
        """Return the zero state for `n_sequences` sequences."""
        weight = self.gates.weight
        return LstmState(
            hidden=weight.new_zeros(n_sequences, self.architecture.projection_dim),
            cell=weight.new_zeros(n_sequences, self.architecture.dim),
        )

    def forward(
        self,
        inputs: Tensor,
        sizes: Sequence[int],
        state: LstmState | None = None,
        run: RunLstm | None = None,
    ) -> tuple[Tensor, LstmState]:
        """Run over packed sequences.

        Args:
            inputs: float, shape (N, P), packed.
            sizes: Number of sequences that run at each step, in descending order.
            state: State in which each sequence starts. None means the zero state.
            run: Function that computes the result. None means `by_steps`.

        Returns:
            The hidden states, shape (N, P), and the state at the end of each sequence.
        """
        if state is None:
            state = self.initial_state(sizes[0] if sizes else 0)
        if run is None:
            return self.by_steps(inputs, sizes, state)
        return run(self, inputs, sizes, state)

    def by_steps(
        self, inputs: Tensor, sizes: Sequence[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Compute `forward` step by step."""
        hidden, cell = state
        weight_ih, weight_hh = torch.split(
            self.gates.weight, self.architecture.projection_dim, dim=1
        )
        # The inputs of all steps are known, so that one product serves them all.
        input_gates = functional.linear(inputs, weight_ih)  # (N, 4 D)
        outputs = []
        ended = []
        for step_gates in torch.split(input_gates, list(sizes)):
            size = len(step_gates)
            if size < len(hidden):
                ended.append(LstmState(hidden[size:], cell[size:]))
                hidden = hidden[:size]
                cell = cell[:size]
            # AllenNLP adds the bias to this product, too. The order of additions
            # changes the bits.
            step_gates = step_gates + functional.linear(
                hidden, weight_hh, self.gates.bias
            )
            hidden, cell = self._step(step_gates, cell)  # (size, P), (size, D)
            outputs.append(hidden)
        ended.append(LstmState(hidden, cell))
        ended.reverse()  # The longest sequences come first and ended last.
        final = LstmState(
            hidden=torch.cat([state.hidden for state in ended]),
            cell=torch.cat([state.cell for state in ended]),
        )
        return torch.cat(outputs) if outputs else inputs, final

    def _step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden states, (B, P), and the cells, (B, D), after one step."""
        # (B, D) each
        input_gate, memory, forget_gate, output_gate = gates.chunk(4, dim=1)
        added = torch.sigmoid(input_gate) * torch.tanh(memory)
        kept = torch.sigmoid(forget_gate + FORGET_BIAS) * cell
        cell = clip(added + kept, self.architecture.cell_clip)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)  # (B, D)
        if self.projection is not None:
            hidden = self.projection(hidden)  # (B, P)
        return clip(hidden, self.architecture.proj_clip), cell


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Clip values to [-bound, bound].

    Return them unchanged if the bound is None or 0.
    """
    return values.clamp(-bound, bound) if bound else values
