"""The fast biLM: the same as `BiLm.run_bounded`, without gradients.

What makes it faster than the readable one: equal beginnings run once (a `Trie`), W_ih x of
the lowest layer is computed once for each distinct token, and weights and elementwise work
are prepared for the processor (`fast_lstm`, `kernels`).
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.compiled.kernels import MAX_ROWS, Linear
from elmo_cli.inference.device import ComputeTypes
from elmo_cli.inference.fast_lstm import FastLstm, TableRows, Trie, build_trie
from elmo_cli.model.bilm import BiLm, BiLmState, LayerState
from elmo_cli.model.lstm import Lstm, LstmState

TABLE_BYTES = 1 << 26
"""Of the gates of distinct tokens that are held at once, 64 KiB each in the original model and
float32: enough for many steps, and the more steps, the more of their tokens are equal."""

FORWARD, BACKWARD, BOTH = (0,), (1,), (0, 1)
"""Directions to run."""


@cache
def _prepare_for_forks() -> None:
    """Have a process that is forked from now on not wait for threads that it does not have."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class FastBiLm:
    """Both stacks of LSTMs, prepared for inference on a device, in a precision."""

    def __init__(self, bilm: BiLm, types: ComputeTypes, *, keeps_bilm: bool = False) -> None:
        """Prepare the LSTMs of a biLM.

        They are taken out of it one by one, so that memory never holds all of them twice, and it
        must not be used afterwards; `keeps_bilm` leaves it as it is.
        """
        _prepare_for_forks()
        self.options = bilm.options
        self.device = types.device
        self._values = types.values
        token_bytes = 4 * bilm.options.lstm.dim * types.values.itemsize
        self._max_tokens = max(1, TABLE_BYTES // token_bytes)

        def prepared(stack: nn.ModuleList) -> list[FastLstm]:
            lstms = stack if keeps_bilm else (stack.pop(0) for _ in range(len(stack)))
            return [FastLstm(cast(Lstm, lstm), types) for lstm in lstms]

        self._stacks = prepared(bilm.forward_layers), prepared(bilm.backward_layers)

    @torch.inference_mode()
    def contextualize(
        self,
        vectors: Tensor,
        tokens: NDArray[np.int64],
        state: BiLmState,
        directions: Sequence[int] = BOTH,
    ) -> tuple[Tensor, BiLmState]:
        """Run the stacks over sentences; see `SentenceEncoder.run_from`.

        Args:
            vectors: of the distinct tokens, float, shape (V, P).
            tokens: B sentences as rows of `vectors`, shape (B, T), -1 where one has no token.
            state, directions: as there, and so is what is returned.
        """
        n_roots = len(state[0].forward.hidden)
        roots = np.arange(len(tokens)) if n_roots > 1 else np.zeros(len(tokens), np.int64)
        rows = torch.from_numpy(tokens[tokens >= 0]).to(self.device)
        shape = self.options.n_layers, len(rows), len(directions), vectors.shape[1]
        layers = vectors.new_empty(shape)
        torch.index_select(vectors, 0, rows, out=layers[0, :, 0])
        layers[0, :, 1:] = layers[0, :, :1]
        # Memory that has been used is faster than new: its pages are there.
        n_tokens = min(self._max_tokens, max(MAX_ROWS, len(vectors)))
        workspace = vectors.new_empty(n_tokens, self._stacks[0][0].input_gates.n_outputs)
        finals = [list(starts) for starts in zip(*state, strict=True)]
        # One direction after the other, each with all cores: so its weights are in the caches.
        for place, direction in enumerate(directions):
            finals[direction] = self._run_stack(
                self._stacks[direction],
                vectors,
                build_trie(tokens, roots, self.device, backward=direction == 1),
                finals[direction],
                layers[1:, :, place],
                workspace,
            )
        return layers.flatten(2), [LayerState(*pair) for pair in zip(*finals, strict=True)]

    def _run_stack(
        self,
        lstms: Sequence[FastLstm],
        vectors: Tensor,  # rows for the tokens of the trie
        trie: Trie,
        starts: Sequence[LstmState],  # of each root, for each layer
        results: Tensor,  # the hidden states, float, (L - 1, N, P): written
        workspace: Tensor,  # for gates, float, (m, 4 D)
    ) -> list[LstmState]:
        """Run one direction, from the lowest layer up; where each sentence ended, for each."""
        inputs, finals = vectors, []
        tokens: NDArray[np.int64] | None = trie.tokens
        for lstm, start, result in zip(lstms, starts, results, strict=True):
            gates = input_gates(lstm.input_gates, inputs, tokens, trie.sizes, workspace)
            outputs, ended = lstm.run(gates, trie, start)  # (M, P)
            if tokens is None and self.options.lstm.use_skip_connections:
                outputs += inputs
            torch.index_select(outputs, 0, trie.nodes, out=result)
            finals.append(LstmState(*(values[trie.by_sentence] for values in ended)))
            inputs, tokens = outputs, None
        return finals

    def initial_state(self, n_sentences: int) -> BiLmState:
        """The zero state for `n_sentences` sentences; cells are float32 in every precision."""
        lstm, on_device = self.options.lstm, partial(torch.zeros, device=self.device)

        def direction() -> LstmState:
            hidden = on_device(n_sentences, lstm.projection_dim, dtype=self._values)
            return LstmState(hidden, on_device(n_sentences, lstm.dim, dtype=torch.float32))

        return [LayerState(direction(), direction()) for _ in range(lstm.n_layers)]


def input_gates(
    layer: Linear,  # from P to 4 D values
    inputs: Tensor,  # float, (V, P)
    tokens: NDArray[np.int64] | None,  # of each node, rows of `inputs`; None: nodes are the rows
    sizes: Sequence[int],  # the nodes of each step
    workspace: Tensor,  # for the gates that are held at once, float, (m, 4 D)
) -> Iterator[TableRows]:
    """W_ih x + b for the nodes of each step, computed for several steps at once."""
    if tokens is None:
        groups = group_by_rows(sizes, MAX_ROWS)
    else:
        groups = group_by_tokens(tokens, sizes, len(workspace))
    start = 0
    for group in groups:
        end = start + sum(group)
        if tokens is None:
            table = layer(inputs[start:end], workspace)  # (n, 4 D)
            steps = [TableRows(step, None) for step in torch.split(table, group)]
        else:
            distinct, places = np.unique(tokens[start:end], return_inverse=True)
            rows = torch.from_numpy(distinct).to(inputs.device)
            table = layer(inputs.index_select(0, rows), workspace)  # (n, 4 D)
            in_table = torch.from_numpy(places).to(inputs.device)
            steps = [TableRows(table, step) for step in torch.split(in_table, group)]
        yield from steps
        del table, steps
        start = end


def group_by_tokens(
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


def group_by_rows(sizes: Sequence[int], max_rows: int) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `max_rows` rows, one step at the least."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > max_rows:
            yield group
            group = []
        group.append(size)
    yield group


Encode = Callable[[Tensor, Tensor], Tensor]


class BiLmRunner:
    """Runs the biLM of a module: by fast LSTMs where it does not train.

    Those have a copy of its LSTMs' weights, made when they are first used and again where the
    weights have changed since. Copies and pickles of this object have none.
    """

    def __init__(self) -> None:
        self._fast: FastBiLm | None = None
        self._copied: list[Any] = []

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[()]]:
        return BiLmRunner, ()

    def layers(
        self,
        bilm: BiLm,
        ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        encode: Encode | None = None,
    ) -> Tensor:
        """Run over a padded batch that has its boundaries, from the zero state.

        Args:
            bilm: always the same one.
            ids: int64, shape (B, T + 2, C): `BiLm.add_boundaries`.
            mask, lengths, encode: as in `BiLm.run_bounded`; `encode` is the biLM's token encoder
                if not given.

        Returns:
            float, shape (L, B, T + 2, W), zero where the mask is.
        """
        encode = encode or (lambda rows, columns: bilm.token_encoder(ids[rows, columns]))
        is_frozen = _is_frozen(bilm)
        if not is_frozen and (bilm.device.type != "cpu" or torch.compiler.is_compiling()):
            return bilm.run_bounded(mask, lengths, encode).layers
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_frozen):
            vectors, tokens = _distinct_tokens(ids, mask, encode)
        if not is_frozen:
            return bilm.run_bounded(
                mask, lengths, lambda rows, columns: vectors.index_select(0, tokens[rows, columns])
            ).layers
        vectors = vectors.to(_dtype(bilm))  # autocast has another
        # Made outside of inference mode, since the gradients of a mix need it.
        layers = vectors.new_zeros(bilm.options.n_layers, *mask.shape, bilm.options.width)
        running = [length > 0 for length in lengths]
        if any(running):
            run = self._contextualize
            if "torch._dynamo" in sys.modules:  # torch.compile would follow into the kernels
                run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
            layers[:, mask] = run(bilm, vectors, tokens.numpy()[running])
        return layers

    def _contextualize(self, bilm: BiLm, vectors: Tensor, tokens: NDArray[np.int64]) -> Tensor:
        stacks = bilm.forward_layers, bilm.backward_layers
        weights = [weight for stack in stacks for weight in stack.parameters()]
        found = [(weight.data_ptr(), weight._version, weight.dtype) for weight in weights]
        if self._fast is None or found != self._copied:
            self._fast = None  # its memory first
            types = ComputeTypes(bilm.device, *3 * (_dtype(bilm),))
            self._fast, self._copied = FastBiLm(bilm, types, keeps_bilm=True), found
        with torch.autocast("cpu", enabled=False):
            return self._fast.contextualize(vectors, tokens, self._fast.initial_state(1))[0]


def _is_frozen(bilm: BiLm) -> bool:
    """Whether a biLM has neither gradients nor dropout, on a device that has fast LSTMs."""
    if bilm.device.type != "cpu" or (bilm.training and bilm.dropout.p > 0):
        return False
    trains = any(parameter.requires_grad for parameter in bilm.parameters())
    return not trains and _dtype(bilm) != torch.float64  # cells would be float32


def _dtype(bilm: BiLm) -> torch.dtype:
    return bilm.layer_pairs()[0][0].gates.weight.dtype


def _distinct_tokens(ids: Tensor, mask: Tensor, encode: Encode) -> tuple[Tensor, Tensor]:
    """The vectors of distinct tokens, float, shape (V, P), and which of them each token is.

    The latter is int64, shape (B, T + 2), -1 where there is no token.
    """
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    distinct, indices = torch.unique(ids[rows, columns], dim=0, return_inverse=True)
    first = indices.new_full((len(distinct),), len(indices))
    first.scatter_reduce_(0, indices, torch.arange(len(indices)), "amin")
    tokens = indices.new_full(mask.shape, -1)
    tokens[rows, columns] = indices
    return encode(rows[first], columns[first]), tokens
