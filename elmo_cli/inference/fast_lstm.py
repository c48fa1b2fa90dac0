"""The fast LSTM layer: the same as `lstm.Lstm`, without gradients, over a trie.

Its weights are laid out once for the processor's matrix product, and all elementwise
work is done in one pass, or in place (`cells`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.inference.cells import TableRows
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.trie import Trie
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState

MOST_DISTINCT = 0.8
"""Distinct parents over nodes, up to which nodes of one parent share what is multiplied for it.
Where `cells` is not compiled, that costs a copy of the gates."""


class Parents(NamedTuple):
    """The parents of the n nodes of a step, int64, as places in the step before."""

    of_nodes: Tensor
    """Shape (n,)."""
    distinct: Tensor
    """Shape (m,): `of_nodes`, or each of them once."""
    which: Tensor | None
    """Which of `distinct` each node has, shape (n,); None: one each, in order."""

    @classmethod
    def of(cls, places: Tensor) -> "Parents":
        """From those of the nodes, rising."""
        if places.device.type == "cpu":  # on a GPU it is not measured
            distinct, which = torch.unique_consecutive(places, return_inverse=True)
            if len(distinct) <= MOST_DISTINCT * len(places):
                return cls(places, distinct, which)
        return cls(places, places, None)


class Steps(NamedTuple):
    """How nodes follow each other from step to step, on the device; see `Trie`."""

    sizes: Sequence[int]
    """The nodes of each step."""
    n_ended: Sequence[int]
    """The sentences that end at each step."""
    parents: tuple[Parents, ...]
    ends: tuple[Tensor, ...]

    @classmethod
    def of(cls, trie: Trie, device: torch.device) -> "Steps":
        """The steps of a trie."""
        parents = torch.split(torch.from_numpy(trie.parents).to(device), trie.sizes)
        ends = torch.from_numpy(trie.ends).to(device)
        ends_of_steps = torch.split(ends, trie.n_ended)
        return cls(trie.sizes, trie.n_ended, tuple(map(Parents.of, parents)), ends_of_steps)


class FastLstm:
    """One LSTM layer in one direction, prepared for inference.

    Its weights have the factors of two that `cells` wants.
    """

    def __init__(self, lstm: Lstm, types: ComputeTypes) -> None:
        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        parts = torch.split(lstm.gates.weight.detach(), lstm.options.projection_dim, dim=1)
        from_inputs, from_hidden, bias = map(_double_memory, (*parts, bias))
        self._projection, self._half = None, types.values
        if lstm.projection is not None:
            self._projection = types.product(2 * lstm.projection.weight.detach())
            self._half = types.factors
        self._dim = lstm.options.dim
        self._recurrence = types.recurrence(from_inputs, from_hidden, bias, self._half)
        self.from_inputs = self._recurrence.from_inputs
        self._cell_clip = lstm.options.cell_clip or math.inf
        self._proj_clip = lstm.options.proj_clip or math.inf

    def run(
        self,
        input_gates: Iterator[TableRows],
        steps: Steps,
        state: LstmState,
    ) -> tuple[Tensor, LstmState]:
        """Run over a trie; see `Lstm.forward`.

        Args:
            input_gates: the inputs' part of the gates, float, shape (n, 4 D), for each step.
            steps: how nodes follow each other.
            state: where each root starts.

        Returns:
            The hidden states, float, shape (M, P), and the states in which sentences ended, in
            that order.
        """
        hidden, cells = state.hidden, (2 * state.cell).contiguous()
        # All that stays is allocated first: between what comes and goes it would break up memory.
        outputs = hidden.new_empty(sum(steps.sizes), hidden.shape[1])  # (M, P)
        n_ended, most = sum(steps.n_ended), max(steps.sizes)
        ended = LstmState(*(values.new_empty(n_ended, values.shape[1]) for values in state))
        written = cells.new_empty(2, most, cells.shape[1])  # by the steps in turn
        factors = self._room(most, hidden)
        start = first = 0
        for step, (size, n_ends, parents, ends) in enumerate(zip(*steps, strict=True)):
            before, end = LstmState(hidden, cells), start + size
            hidden, cells = outputs[start:end], written[step % 2, :size]
            # No name for the gates: their table has to go before the next one is made.
            self._step(next(input_gates), before, parents, LstmState(hidden, cells), *factors)
            if n_ends:
                for values, last in zip((hidden, cells), ended, strict=True):
                    torch.index_select(values, 0, ends, out=last[first : first + n_ends])
            start, first = end, first + n_ends
        return outputs, LstmState(ended.hidden, ended.cell.div_(2))

    def _room(self, n: int, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Zeros, for what up to n nodes multiply, with the rows that a product adds."""
        n_half = n if self._projection is None else self._projection.n_rows(n)
        half = hidden.new_zeros(n_half, self._dim, dtype=self._half)
        return hidden.new_zeros(self._recurrence.n_rows(n), hidden.shape[1]), half

    def _step(
        self,
        gates: TableRows,
        before: LstmState,
        parents: Parents,
        after: LstmState,
        hidden: Tensor,
        half: Tensor,
    ) -> None:
        """Take n nodes one step further, from their parents.

        Args:
            after: written.
            hidden, half: room for what is multiplied: `_room`.
        """
        n, m = after.cell.shape[0], parents.distinct.shape[0]
        # Nodes of one parent share what comes from its hidden state.
        torch.index_select(before.hidden, 0, parents.distinct, out=hidden[:m])
        states = TableRows(hidden[: self._recurrence.n_rows(m)], parents.which)
        cells = TableRows(before.cell, parents.of_nodes)
        self._recurrence.take_step(gates, states, cells, self._cell_clip, after.cell, half[:n])
        if self._projection is None:
            projected = 2 * half[:n]
        else:
            factors = half[: self._projection.n_rows(n)]
            projected = self._projection.in_room(after.hidden, factors)  # (n or more, P)
        torch.clamp(projected[:n], -self._proj_clip, self._proj_clip, out=after.hidden)


def _double_memory(values: Tensor) -> Tensor:
    """A copy of weights or a bias, (4 D, ...), with those of the memory gate doubled: exact."""
    doubled = values.clone(memory_format=torch.contiguous_format)
    doubled.view(4, -1)[1] *= 2
    return doubled
