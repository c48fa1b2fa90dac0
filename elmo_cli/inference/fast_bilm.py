"""Fast biLM: computes what `BiLm.run_bounded` computes, without gradients.

Three things make it faster than the readable biLM. Equal beginnings of sentences are computed once
(see `Trie`). W_ih x of the lowest layer is computed once per distinct token. Weights and
elementwise work are prepared for the processor (`fast_lstm`).

A `BiLmRunner` uses it in a module that may train too, whose weights may change at any time, and
which `torch.compile` leaves out (`uncompiled`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.inference.fast_lstm import FastLstm, StepGates
from elmo_cli.inference.precision import ComputeTypes, compute_into
from elmo_cli.inference.trie import Trie, build_trie
from elmo_cli.model.bilm import BiLm, BiLmState, LayerState
from elmo_cli.model.lstm import Lstm, LstmState

MAX_ROWS: Final = 256  # rows of a product that steps share; more rows are no faster
MAX_STEPS = 500
"""Steps that share the gates of distinct tokens. They are one call of C, which Ctrl-C cannot stop:
half a second for the original model."""
TABLE_BYTES = 1 << 26
"""Memory for the gates of distinct tokens: 64 KiB per token in the original model and float32.
A larger table covers more steps, which repeat more of their tokens."""

FORWARD, BACKWARD, BOTH = (0,), (1,), (0, 1)  # directions to run


@cache
def _prepare_for_forks() -> None:
    """Limit torch to one thread in later forks, which lack OpenMP's threads and wait for them."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks.
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class FastBiLm:
    """Both stacks of LSTMs, prepared for inference on a device, in a precision."""

    def __init__(
        self, bilm: BiLm, types: ComputeTypes, *, keeps_bilm: bool = False
    ) -> None:
        """Prepare LSTMs. Unless `keeps_bilm`, each is removed from its biLM, to save memory."""
        _prepare_for_forks()
        self.options = bilm.options
        self._types = types
        token_bytes = 4 * bilm.options.lstm.dim * types.values.itemsize
        self._max_tokens = max(1, TABLE_BYTES // token_bytes)

        def prepare(stack: nn.ModuleList) -> list[FastLstm]:
            lstms = stack if keeps_bilm else (stack.pop(0) for _ in range(len(stack)))
            return [FastLstm(cast(Lstm, lstm), types) for lstm in lstms]

        self._stacks = prepare(bilm.forward_layers), prepare(bilm.backward_layers)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _prepare_for_forks()
        vars(self).update(state)

    @torch.inference_mode()
    def contextualize(
        self,
        vectors: Tensor,
        tokens: NDArray[np.int64],
        state: BiLmState,
        directions: Sequence[int] = BOTH,
    ) -> tuple[Tensor, BiLmState]:
        """Run the stacks as `SentenceEncoder.run_from`, over the vectors of distinct tokens.

        They are float, shape (V, P), with a row per token, (B, T), padded with -1.
        """
        n_roots = len(state[0].forward.hidden)
        roots = (
            np.arange(len(tokens)) if n_roots > 1 else np.zeros(len(tokens), np.int64)
        )
        rows = torch.from_numpy(tokens[tokens >= 0]).to(self._types.device)
        shape = self.options.n_layers, len(rows), len(directions), vectors.shape[1]
        layers = vectors.new_empty(shape)
        compute_into(layers[0, :, 0], torch.index_select, vectors, 0, rows)
        layers[0, :, 1:] = layers[0, :, :1]
        # All steps share one workspace, because the pages of new memory have to be mapped first.
        n_tokens = min(self._max_tokens, max(MAX_ROWS, len(vectors)))
        n_gates = (
            self._stacks[0][0].input_gates.n_outputs
            if vectors.device.type == "cpu"
            else 0
        )
        workspace = vectors.new_empty(n_tokens, n_gates)
        ended = [list(starts) for starts in zip(*state, strict=True)]
        # The directions run one after the other on all cores, so that weights stay in the caches.
        for index, direction in enumerate(directions):
            trie = build_trie(
                tokens, roots, self._types.device, backward=direction == 1
            )
            lstms, starts, results = (
                self._stacks[direction],
                ended[direction],
                layers[1:, :, index],
            )
            ended[direction] = self._run_stack(
                lstms, vectors, trie, starts, results, workspace
            )
        return layers.flatten(2), [
            LayerState(*pair) for pair in zip(*ended, strict=True)
        ]

    def _run_stack(
        self,
        lstms: Sequence[FastLstm],
        vectors: Tensor,  # rows for the tokens of the trie
        trie: Trie,
        starts: Sequence[LstmState],  # state of each root, per layer
        results: Tensor,  # hidden states, float, (L - 1, N, P): written
        workspace: Tensor,  # memory for gates, float, (m, 4 D)
    ) -> list[LstmState]:
        """Run one direction from the lowest layer. Return the final states, one per layer."""
        inputs, finals = vectors, []
        tokens: NDArray[np.int64] | None = trie.tokens
        for lstm, start, result in zip(lstms, starts, results, strict=True):
            gates = compute_input_gates(
                lstm.compute_gates, inputs, tokens, trie.sizes, workspace
            )
            outputs, ended = lstm.run(gates, trie, start)  # (M, P)
            if tokens is None and self.options.lstm.use_skip_connections:
                outputs += inputs
            compute_into(result, torch.index_select, outputs, 0, trie.nodes)
            if len(trie.ends) > 1:
                ended = LstmState(*(values[trie.by_sentence] for values in ended))
            finals.append(ended)
            inputs, tokens = outputs, None
        return finals

    def zero_state(self, n_sentences: int) -> BiLmState:
        """Return the zero state for `n_sentences` sentences. Cells are always float32."""
        lstm, zeros = self.options.lstm, partial(torch.zeros, device=self._types.device)

        def make_direction() -> LstmState:
            hidden = zeros(n_sentences, lstm.projection_dim, dtype=self._types.values)
            return LstmState(hidden, zeros(n_sentences, lstm.dim, dtype=torch.float32))

        return [
            LayerState(make_direction(), make_direction()) for _ in range(lstm.n_layers)
        ]


def compute_input_gates(
    multiply: Callable[[Tensor, Tensor], Tensor],  # see `FastLstm.compute_gates`
    inputs: Tensor,  # float, (V, P)
    tokens: NDArray[np.int64]
    | None,  # row of `inputs` per node; None: the nodes are the rows
    sizes: Sequence[int],  # number of nodes per step
    workspace: Tensor,  # memory for the gates of a group of steps, float, (m, 4 D)
) -> Iterator[StepGates]:
    """Yield W_ih x + b for the nodes of several steps."""
    most = len(workspace)
    groups = (
        group_by_rows(sizes) if tokens is None else group_by_tokens(tokens, sizes, most)
    )
    start = 0
    for group in groups:
        end = start + sum(group)
        if tokens is None:
            yield StepGates(group, multiply(inputs[start:end], workspace), None)
        elif len(group) == len(sizes):  # All rows of the inputs are used.
            rows = torch.from_numpy(tokens).to(inputs.device)
            yield StepGates(group, multiply(inputs, workspace), rows)
        else:
            distinct, indices = np.unique(tokens[start:end], return_inverse=True)
            rows = torch.from_numpy(distinct).to(inputs.device)
            table = multiply(inputs.index_select(0, rows), workspace)
            yield StepGates(group, table, torch.from_numpy(indices).to(inputs.device))
            del table
        start = end


def group_by_tokens(
    tokens: NDArray[np.int64], sizes: Sequence[int], max_tokens: int
) -> Iterator[list[int]]:
    """Split steps into groups of at most `max_tokens` tokens and `MAX_STEPS`, or of one step."""
    if len(tokens) <= max_tokens and len(sizes) <= MAX_STEPS:
        yield list(sizes)
        return
    group: list[int] = []
    seen: set[int] = set()
    for step in np.split(tokens, np.cumsum(sizes)[:-1]):
        distinct = set(step.tolist())
        n_seen = len(seen) + len(distinct - seen)
        if group and (n_seen > max_tokens or len(group) == MAX_STEPS):
            yield group
            group, seen = [], set()
        group.append(len(step))
        seen |= distinct
    yield group


def group_by_rows(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Split steps into groups of at most `MAX_ROWS` rows, or of one step."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > MAX_ROWS:
            yield group
            group = []
        group.append(size)
    yield group
