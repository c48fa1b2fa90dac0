"""Fast biLM: computes what `BiLm.run_bounded` computes, without gradients.

Three things make it faster than the readable biLM. Equal beginnings of sentences are computed once
(see `Trie`). W_ih x of the lowest layer is computed once per distinct token. Weights and
elementwise work are prepared for the processor (`fast_lstm`).

A `BiLmRunner` uses it in a module that may train too, whose weights may change at any time, and
which `torch.compile` leaves out (`uncompiled`).
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial, wraps
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.inference.batching import Trie, build_trie
from elmo_cli.inference.fast_lstm import FastLstm, StepGates
from elmo_cli.inference.precision import ComputeTypes, compute_into
from elmo_cli.model.bilm import BiLm, BiLmState, LayerState
from elmo_cli.model.lstm import Lstm, LstmState

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def uncompiled(
    method: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Leave a method, and all that it calls, out of compiled models.

    Compiling ELMo takes a minute for each shape of a batch, and saves no time.
    """
    disabled: list[Callable[_Parameters, _Result]] = []

    @wraps(method)
    def call(*args: _Parameters.args, **settings: _Parameters.kwargs) -> _Result:
        if not torch.compiler.is_compiling():
            return method(*args, **settings)
        # The decorator of torch itself would import torch's compiler with this package, for 1 s.
        if not disabled:
            disabled.append(torch.compiler.disable(method))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **settings)

    return call


class WeightsVersion:
    """Addresses of weights, and torch's counters of their changes.

    torch does not count `weight.data.add_()`, NumPy's writes, or the steps of an optimizer with
    `fused=True`. Copies and pickles are versions of no weights.
    """

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        # References keep the memory, so that later weights cannot get the addresses of these.
        self._weights = [weight.detach() for weight in weights]
        self.key = [
            (weight.data_ptr(), -1 if weight.is_inference() else weight._version)
            for weight in self._weights
        ]

    def __reduce__(self) -> tuple[type["WeightsVersion"], tuple[()]]:
        return WeightsVersion, ()


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


EncodeAt: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function from the rows and columns of tokens in a padded batch, int64, shape (N,) each, to their
vectors, float, shape (N, P)."""


class BiLmRunner:
    """Runner for the biLM of a module. It uses fast LSTMs if the biLM is not trained.

    The fast LSTMs have a copy of the weights, which is made again after a change that
    `WeightsVersion` shows, and after training. Copies and pickles of a runner have no weights.
    """

    def __init__(self) -> None:
        self._fast: FastBiLm | None = None
        self._copied = WeightsVersion()

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[()]]:
        return BiLmRunner, ()

    def reload_weights(self) -> None:
        """Forget the copy of the weights, so that the next call makes a new one."""
        self._fast, self._copied = None, WeightsVersion()

    def run(
        self,
        bilm: BiLm,
        ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        encode: EncodeAt | None = None,
    ) -> Tensor:
        """Run over a padded batch with boundaries, from the zero state: see `BiLm.run_bounded`.

        All calls must get one model. `ids` are int64, shape (B, T + 2, C). Return layers, float,
        shape (L, B, T + 2, W), zero outside the mask.
        """
        encode = encode or (
            lambda rows, columns: bilm.token_encoder(ids[rows, columns])
        )
        is_frozen = _is_frozen(bilm)
        if not is_frozen:
            self.reload_weights()  # Not all optimizers count their steps.
        if not is_frozen and (
            bilm.device.type != "cpu" or torch.compiler.is_compiling()
        ):
            return bilm.run_bounded(mask, lengths, encode).layers
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_frozen):
            vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
        if not is_frozen:
            return bilm.run_bounded(
                mask,
                lengths,
                lambda rows, columns: vectors.index_select(0, tokens[rows, columns]),
            ).layers
        vectors = vectors.to(
            _gates_dtype(bilm)
        )  # Autocast may have changed the data type.
        # Created outside of inference mode, because a mix may need gradients.
        layers = vectors.new_zeros(
            bilm.options.n_layers, *mask.shape, bilm.options.width
        )
        if len(lengths):
            run = self._contextualize
            if (
                "torch._dynamo" in sys.modules
            ):  # torch.compile would trace the calls of kernels.
                run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
            layers[:, mask] = run(bilm, vectors, tokens.numpy())
        return layers

    def _contextualize(
        self, bilm: BiLm, vectors: Tensor, tokens: NDArray[np.int64]
    ) -> Tensor:
        """Run the fast LSTMs, and copy the weights first if they have changed."""
        stacks = bilm.forward_layers, bilm.backward_layers
        version = WeightsVersion(
            weight for stack in stacks for weight in stack.parameters()
        )
        if self._fast is None or version.key != self._copied.key:
            self._fast, self._copied = (
                None,
                version,
            )  # The old copy is freed before the new one.
            dtype = _gates_dtype(bilm)
            types = ComputeTypes(bilm.device, dtype, dtype, dtype)
            self._fast = FastBiLm(bilm, types, keeps_bilm=True)
        with torch.autocast("cpu", enabled=False):
            return self._fast.contextualize(vectors, tokens, self._fast.zero_state(1))[
                0
            ]


def _is_frozen(bilm: BiLm) -> bool:
    """Return whether fast LSTMs can replace a biLM: no gradients, no dropout, and on the CPU."""
    if bilm.device.type != "cpu" or (bilm.training and bilm.dropout.p > 0):
        return False
    is_trained = any(parameter.requires_grad for parameter in bilm.parameters())
    return (
        not is_trained and _gates_dtype(bilm) != torch.float64
    )  # Fast cells are float32.


def _gates_dtype(bilm: BiLm) -> torch.dtype:
    return bilm.layer_pairs()[0][0].gates.weight.dtype


def _encode_distinct_tokens(
    ids: Tensor, mask: Tensor, encode: EncodeAt
) -> tuple[Tensor, Tensor]:
    """Return distinct vectors, float, (V, P), and rows, int64, (B, T + 2), padded with -1."""
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    distinct, indices = torch.unique(ids[rows, columns], dim=0, return_inverse=True)
    first = indices.new_full((len(distinct),), len(indices))
    first.scatter_reduce_(
        0, indices, torch.arange(len(indices), device=ids.device), "amin"
    )
    tokens = indices.new_full(mask.shape, -1)
    tokens[rows, columns] = indices
    return encode(rows[first], columns[first]), tokens
