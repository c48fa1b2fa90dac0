"""The fast biLM: the same as `BiLm.contextualize`, without gradients.

What makes it faster than the readable one: equal beginnings run once (`trie`), the
input product of the lowest layer is made once for each distinct token, the weights
are laid out once for the processor's matrix product, and all elementwise work is done
in one pass, or in place (`cells`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.allocator import return_free_memory
from elmo_cli.arithmetic import Arithmetic
from elmo_cli.bilm import BiLm, BiLmState, LayerState
from elmo_cli.cells import TableRows
from elmo_cli.lstm import FORGET_BIAS, Lstm, LstmState
from elmo_cli.products import PRODUCT_ROWS, Product
from elmo_cli.trie import Trie, build_trie

TABLE_TOKENS = 1024
"""Distinct tokens whose gates are held at once, 64 KiB each: enough for the steps of a whole
batch of most texts, and the more steps, the more of their tokens are equal."""


class Steps(NamedTuple):
    """How the nodes of a trie follow each other, on the device; see `Trie`."""

    parents: tuple[Tensor, ...]
    ends: tuple[Tensor, ...]

    @classmethod
    def of(cls, trie: Trie, device: torch.device) -> "Steps":
        """The steps of a trie, int64, shape (n,) each."""
        parents = torch.from_numpy(trie.parents).to(device)
        ends = torch.from_numpy(trie.ends).to(device)
        return cls(torch.split(parents, trie.sizes), torch.split(ends, trie.n_ended))


class FastLstm:
    """One LSTM layer in one direction, prepared for inference.

    Its weights have the factors of two that `cells` wants.
    """

    def __init__(self, lstm: Lstm, arithmetic: Arithmetic) -> None:
        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        parts = torch.split(lstm.gates.weight.detach(), lstm.options.projection_dim, dim=1)
        from_inputs, from_hidden, bias = map(_double_memory, (*parts, bias))
        self.from_inputs = arithmetic.gates(from_inputs, bias)
        self.from_hidden = arithmetic.gates(from_hidden)
        self._projection, self._half = None, arithmetic.values
        if lstm.projection is not None:
            self._projection = arithmetic.product(2 * lstm.projection.weight.detach())
            self._half = arithmetic.factors
        self._next_cells = arithmetic.next_cells(self._half)
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
        sizes = [len(parents) for parents in steps.parents]
        # All that stays is allocated first: between what comes and goes it would break up memory.
        outputs = hidden.new_empty(sum(sizes), hidden.shape[1])  # (M, P)
        n_ended = sum(map(len, steps.ends))
        ended = LstmState(*(values.new_empty(n_ended, values.shape[1]) for values in state))
        written = cells.new_empty(2, max(sizes), cells.shape[1])  # by the steps in turn
        start = first = 0
        for step, (parents, ends) in enumerate(zip(steps.parents, steps.ends, strict=True)):
            before, end = LstmState(hidden, cells), start + len(parents)
            hidden, cells = outputs[start:end], written[step % 2, : len(parents)]
            # No name for the gates: their table has to go before the next one is made.
            self._step(next(input_gates), before, parents, LstmState(hidden, cells))
            if len(ends):
                for values, last in zip((hidden, cells), ended, strict=True):
                    torch.index_select(values, 0, ends, out=last[first : first + len(ends)])
            start, first = end, first + len(ends)
        return outputs, LstmState(ended.hidden, ended.cell.div_(2))

    def _step(self, gates: TableRows, before: LstmState, parents: Tensor, after: LstmState) -> None:
        """Take nodes one step further, from their parents; `after` is written."""
        half = after.cell.new_empty(after.cell.shape, dtype=self._half)  # (n, D)
        hidden_gates = self.from_hidden.unscaled(before.hidden.index_select(0, parents))  # (n, 4 D)
        cells = TableRows(before.cell, parents)
        self._next_cells(gates, hidden_gates, cells, self._cell_clip, after.cell, half)
        if self._projection is None:
            torch.mul(half, 2, out=after.hidden)
        else:
            after.hidden.copy_(self._projection(half))  # (n, P)
        after.hidden.clamp_(-self._proj_clip, self._proj_clip)


def _double_memory(values: Tensor) -> Tensor:
    """A copy of weights or a bias, (4 D, ...), with those of the memory gate doubled: exact."""
    doubled = values.clone(memory_format=torch.contiguous_format)
    doubled.view(4, -1)[1] *= 2
    return doubled


class FastBiLm:
    """Both stacks of LSTMs, prepared for inference on a device, in a precision."""

    def __init__(self, bilm: BiLm, arithmetic: Arithmetic) -> None:
        """Take the LSTMs out of a biLM one by one, so that memory never holds all of them twice."""
        self.options = bilm.options
        self.device = arithmetic.device
        self._values = arithmetic.values
        stacks = zip(_taken(bilm.forward_layers), _taken(bilm.backward_layers), strict=True)
        self.layers = [
            (FastLstm(ahead, arithmetic), FastLstm(behind, arithmetic)) for ahead, behind in stacks
        ]

    @torch.inference_mode()
    def contextualize(
        self, vectors: Tensor, tokens: NDArray[np.int64], state: BiLmState
    ) -> tuple[Tensor, BiLmState]:
        """Run both stacks over sentences; see `BiLm.contextualize`.

        Args:
            vectors: of the distinct tokens, float, shape (V, P).
            tokens: B sentences as rows of `vectors`, shape (B, T), -1 where one has no
                token; none is empty, N tokens together.
            state: where each sentence starts; a single row if all start there.

        Returns:
            Layers, float, shape (L, N, 2 P), sentence after sentence, and where each
            sentence ended.
        """
        n_roots = len(state[0].forward.hidden)
        roots = np.arange(len(tokens)) if n_roots > 1 else np.zeros(len(tokens), np.int64)
        rows = torch.from_numpy(tokens[tokens >= 0]).to(self.device)
        layers = vectors.new_empty(self.options.n_layers, len(rows), 2, vectors.shape[1])
        layers[0] = vectors.index_select(0, rows)[:, None]

        ended = []
        # One after the other, each with all cores: so the weights of one are in the caches.
        for direction, backward in enumerate((False, True)):
            if self.device.type == "cpu" and len(rows) > TABLE_TOKENS:
                return_free_memory()  # of what was before: 150 MB in small pieces, in 20 ms
            trie = build_trie(tokens, roots, backward=backward)
            lstms = [pair[direction] for pair in self.layers]
            starts = [layer[direction] for layer in state]
            ended.append(self._run(lstms, vectors, trie, starts, layers[1:, :, direction]))
        return layers.flatten(2), [LayerState(*pair) for pair in zip(*ended, strict=True)]

    def _run(
        self,
        lstms: Sequence[FastLstm],
        vectors: Tensor,
        trie: Trie,
        starts: Sequence[LstmState],
        results: Tensor,
    ) -> list[LstmState]:
        """Run one stack over a trie; write `results`, shape (L - 1, N, P), give where it ended."""
        steps = Steps.of(trie, self.device)
        by_sentence = torch.from_numpy(trie.ended.argsort()).to(self.device)
        nodes = torch.from_numpy(trie.nodes).to(self.device)
        gates = _token_gates(lstms[0].from_inputs, vectors, trie)
        below, ended = None, []
        for lstm, start, result in zip(lstms, starts, results, strict=True):
            if below is not None:
                gates = _node_gates(lstm.from_inputs, below, trie.sizes)
            outputs, final = lstm.run(gates, steps, start)
            if below is not None and self.options.lstm.use_skip_connections:
                outputs += below
            below = outputs  # (M, P)
            torch.index_select(outputs, 0, nodes, out=result)
            ended.append(LstmState(*(values[by_sentence] for values in final)))
        return ended

    def initial_state(self, n_sentences: int) -> BiLmState:
        """The zero state for `n_sentences` sentences; cells are float32 in every precision."""
        lstm = self.options.lstm

        def direction() -> LstmState:
            return LstmState(
                torch.zeros(
                    n_sentences, lstm.projection_dim, device=self.device, dtype=self._values
                ),
                torch.zeros(n_sentences, lstm.dim, device=self.device, dtype=torch.float32),
            )

        return [LayerState(direction(), direction()) for _ in range(lstm.n_layers)]


def _taken(layers: nn.ModuleList) -> Iterator[Lstm]:
    """The LSTMs of a stack, from the lowest, each no longer in it."""
    while len(layers):
        yield cast(Lstm, layers.pop(0))


def _token_gates(from_inputs: Product, vectors: Tensor, trie: Trie) -> Iterator[TableRows]:
    """The inputs' part of the gates of each step where inputs are tokens, which repeat.

    Args:
        vectors: of the distinct tokens, float, shape (V, P).
        trie: its tokens are rows of `vectors`.
    """
    start = 0
    for group in _groups_by_tokens(trie.tokens, trie.sizes, TABLE_TOKENS):
        end = start + sum(group)
        distinct, places = np.unique(trie.tokens[start:end], return_inverse=True)
        rows = torch.from_numpy(distinct).to(vectors.device)
        table = from_inputs(vectors.index_select(0, rows))  # (n, 4 D)
        for step in torch.split(torch.from_numpy(places).to(vectors.device), group):
            yield TableRows(table, step)  # (n, 4 D)
        del table
        start = end


def _groups_by_tokens(
    tokens: NDArray[np.int64], sizes: Sequence[int], max_tokens: int
) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `max_tokens` distinct tokens, one step at the least."""
    group: list[int] = []
    seen: set[int] = set()
    for step in np.split(tokens, np.cumsum(sizes)[:-1]):
        distinct = set(step.tolist())
        if group and len(seen) + len(distinct - seen) > max_tokens:
            yield group
            group, seen = [], set()
        group.append(len(step))
        seen |= distinct
    yield group


def _node_gates(from_inputs: Product, inputs: Tensor, sizes: Sequence[int]) -> Iterator[TableRows]:
    """The same where each node has inputs of its own, float, shape (M, P)."""
    start = 0
    for group in _groups(sizes, PRODUCT_ROWS):
        end = start + sum(group)
        for step in torch.split(from_inputs(inputs[start:end]), group):
            yield TableRows(step, None)  # (n, 4 D)
        start = end


def _groups(sizes: Sequence[int], max_rows: int) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `max_rows` rows, one step at the least."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > max_rows:
            yield group
            group = []
        group.append(size)
    if group:
        yield group
