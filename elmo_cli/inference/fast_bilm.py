"""Fast biLM: computes what `BiLm.run_bounded` computes, without gradients.

Three things make it faster than the readable biLM. Equal beginnings of sentences are
computed once (see `Trie`). W_ih x of the lowest layer is computed once per distinct
token (`input_gates`). Weights and elementwise work are prepared for the processor
(`fast_lstm`).

A `BiLmRunner` uses it in a module that may train too, whose weights may change at any
time.
"""

import os
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.inference.device import copy_rows
from elmo_cli.inference.fast_lstm import FastLstm
from elmo_cli.inference.input_gates import MAX_ROWS, compute_input_gates
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.trie import Trie, build_trie
from elmo_cli.model.bilm import BiLm, BiLmState, LayerState
from elmo_cli.model.lstm import Lstm, LstmState
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection

TABLE_BYTES = 1 << 26
"""Memory for the gates of distinct tokens: 64 KiB per token in the original model and
float32. A larger table covers more steps, which repeat more of their tokens."""


@cache
def _prepare_for_forks() -> None:
    """Limit torch to one thread in later forks.

    They lack OpenMP's threads, and would wait for them.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no forks.
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class FastBiLm:
    """Both stacks of LSTMs, prepared for inference on a device, in a precision."""

    def __init__(
        self, bilm: BiLm, types: ComputeTypes, *, keeps_bilm: bool = False
    ) -> None:
        """Prepare LSTMs.

        Unless `keeps_bilm`, each is removed from its biLM, to save memory.
        """
        _prepare_for_forks()
        self.architecture = bilm.architecture
        self._types = types
        token_bytes = 4 * bilm.architecture.lstm.dim * types.values.itemsize
        self._max_tokens = max(1, TABLE_BYTES // token_bytes)
        prepare = partial(_prepare_stack, types=types, keeps_lstms=keeps_bilm)
        self._stacks: dict[ReadingDirection, list[FastLstm]] = {
            "forward": prepare(bilm.forward_layers),
            "backward": prepare(bilm.backward_layers),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        _prepare_for_forks()
        vars(self).update(state)

    @torch.inference_mode()
    def run(
        self,
        vectors: Tensor,
        tokens: NDArray[np.int64],
        state: BiLmState,
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
    ) -> tuple[Tensor, BiLmState]:
        """Run the stacks over B sentences of N tokens, none empty, in K directions.

        Args:
            vectors: Vectors of distinct tokens, float, shape (U, P).
            tokens: Row of each token in `vectors`, shape (B, T), padded with -1.
            state: State in which each sentence starts, or one row for all.
            directions: `forward`, `backward` or both, in this order.

        Returns:
            Layers, float, shape (L, N, K P), and the states at the ends, or at the
            start in a direction that was not run.
        """
        if len(state[0].forward.hidden) > 1:
            roots = np.arange(len(tokens))
        else:
            roots = np.zeros(len(tokens), np.int64)
        rows = torch.from_numpy(tokens[tokens >= 0]).to(self._types.device)
        layers = vectors.new_empty(
            self.architecture.n_layers, len(rows), len(directions), vectors.shape[1]
        )
        copy_rows(out=layers[0, :, 0], table=vectors, rows=rows)
        # A token has one vector for all directions.
        layers[0, :, 1:] = layers[0, :, :1]
        workspace = self._make_workspace(vectors)
        # The state of each layer
        states: dict[ReadingDirection, list[LstmState]] = {
            "forward": [layer.forward for layer in state],
            "backward": [layer.backward for layer in state],
        }
        # The directions run one after the other on all cores, so that weights stay in
        # the caches.
        for index, direction in enumerate(directions):
            trie = build_trie(
                tokens, roots, self._types.device, backward=direction == "backward"
            )
            states[direction] = self._run_stack(
                self._stacks[direction],
                vectors=vectors,
                trie=trie,
                starts=states[direction],
                results=layers[1:, :, index],
                workspace=workspace,
            )
        ended = [
            LayerState(forward=forward, backward=backward)
            for forward, backward in zip(
                states["forward"], states["backward"], strict=True
            )
        ]
        return layers.flatten(2), ended

    def _make_workspace(self, vectors: Tensor) -> Tensor:
        """Allocate memory for the gates of distinct tokens, float, shape (m, 4 D).

        All steps share it, because the pages of new memory have to be mapped first.
        """
        n_tokens = min(self._max_tokens, max(MAX_ROWS, len(vectors)))
        n_gates = 0  # unused on a GPU
        if vectors.device.type == "cpu":
            n_gates = self._stacks["forward"][0].input_gates.n_outputs
        return vectors.new_empty(n_tokens, n_gates)

    def _run_stack(
        self,
        lstms: Sequence[FastLstm],
        *,
        vectors: Tensor,
        trie: Trie,
        starts: Sequence[LstmState],
        results: Tensor,
        workspace: Tensor,
    ) -> list[LstmState]:
        """Run one direction.

        Args:
            lstms: LSTMs of the direction, from the lowest.
            vectors: Vectors of distinct tokens, float, shape (U, P).
            trie: Trie of the sentences. Its tokens are rows of the vectors.
            starts: State of each root, per layer.
            results: Hidden states, float, shape (L - 1, N, P): written.
            workspace: Memory for gates, float, shape (m, 4 D).

        Returns:
            The final states of the sentences, per layer.
        """
        finals = []
        inputs = vectors
        tokens: NDArray[np.int64] | None = trie.tokens
        for lstm, start, result in zip(lstms, starts, results, strict=True):
            gates = compute_input_gates(
                lstm.compute_gates,
                inputs,
                tokens=tokens,
                sizes=trie.sizes,
                workspace=workspace,
            )
            outputs, ended = lstm.run(gates, trie, start)  # (M, P)
            is_lowest = tokens is not None
            if self.architecture.lstm.use_skip_connections and not is_lowest:
                outputs += inputs
            copy_rows(out=result, table=outputs, rows=trie.nodes)
            if len(trie.ends) > 1:
                ended = LstmState(
                    hidden=ended.hidden[trie.by_sentence],
                    cell=ended.cell[trie.by_sentence],
                )
            finals.append(ended)
            inputs = outputs
            tokens = None  # The nodes are the rows of the outputs.
        return finals

    def zero_state(self, n_sentences: int) -> BiLmState:
        """Return the zero state for `n_sentences` sentences.

        Cells are always float32.
        """
        lstm = self.architecture.lstm

        def make_direction() -> LstmState:
            device = self._types.device
            return LstmState(
                hidden=torch.zeros(
                    n_sentences,
                    lstm.projection_dim,
                    dtype=self._types.values,
                    device=device,
                ),
                cell=torch.zeros(
                    n_sentences, lstm.dim, dtype=torch.float32, device=device
                ),
            )

        return [
            LayerState(forward=make_direction(), backward=make_direction())
            for _ in range(lstm.n_layers)
        ]


def _prepare_stack(
    stack: nn.ModuleList, types: ComputeTypes, *, keeps_lstms: bool
) -> list[FastLstm]:
    """Prepare the LSTMs of one direction.

    Unless `keeps_lstms`, remove each from the stack.
    """
    if keeps_lstms:
        return [FastLstm(cast(Lstm, lstm), types) for lstm in stack]
    prepared = []
    while len(stack) > 0:
        prepared.append(FastLstm(cast(Lstm, stack.pop(0)), types))
    return prepared
