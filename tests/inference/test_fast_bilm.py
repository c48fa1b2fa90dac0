"""The fast biLM against the readable one, which runs where a module trains."""

import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli import batch_to_ids
from elmo_cli.inference import fast_bilm as fast_bilms
from elmo_cli.inference.bilm_runner import BiLmRunner
from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.input_gates import MAX_ROWS
from elmo_cli.inference.packed_lstm import run_packed
from elmo_cli.inference.precision import compute_types
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state, state_tensors
from elmo_cli.model.packing import pack
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.states import random_state
from tests.support.strategies import (
    RandomModel,
    make_model,
    models,
    padded,
    random_tensor,
    small_architecture,
)

TYPES = compute_types("float32", torch.device("cpu"))
TOLERANCE = 1e-5


@pytest.fixture
def bilm(tmp_path: Path, small_weights_are_mapped: None) -> BiLm:
    return load_bilm(make_model(small_architecture(), 1, tmp_path))


def assert_fast_equals_readable(
    bilm: BiLm, sentences: list[list[int]], state: BiLmState, *, shared: bool = False
) -> None:
    """Assert equal layers and states. `state` has one row per sentence."""
    n_words = 1 + max(map(max, sentences))
    vectors = random_tensor(n_words, bilm.architecture.lstm.projection_dim)
    expected, expected_state = readable_layers(bilm, vectors, sentences, state)

    start = select_state(state, torch.tensor([0])) if shared else state
    before = map_state(start, torch.clone)
    copied = deepcopy(bilm)
    fast = FastBiLm(copied, TYPES)
    # The weights of the copy were moved.
    assert len(copied.forward_layers) == 0
    assert len(copied.backward_layers) == 0
    layers, ended = fast.run(vectors, padded(sentences), start)

    assert_allclose(layers, expected, atol=TOLERANCE)
    ends = zip(state_tensors(ended), state_tensors(expected_state), strict=True)
    for values, others in ends:
        assert_allclose(values, others, atol=TOLERANCE)
    starts = zip(state_tensors(start), state_tensors(before), strict=True)
    for values, others in starts:
        assert torch.equal(values, others)


def readable_layers(
    bilm: BiLm, vectors: Tensor, sentences: list[list[int]], state: BiLmState
) -> tuple[Tensor, BiLmState]:
    """Return the layers of all tokens in order, (L, N, W), and the final state."""
    packing = pack([len(sentence) for sentence in sentences])
    order = torch.from_numpy(packing.order)
    packed = padded(sentences)[packing.sentences, packing.positions]
    ahead = vectors[torch.from_numpy(packed)]
    outputs, ended = bilm.run_stacks(
        ahead, ahead[packing.reversal], packing.sizes, select_state(state, order)
    )
    layers = [torch.cat([ahead, ahead], dim=1)]
    for forward, backward in outputs:
        layers.append(torch.cat([forward, backward[packing.reversal]], dim=1))
    in_order = torch.from_numpy(np.lexsort((packing.positions, packing.sentences)))
    return torch.stack(layers)[:, in_order], select_state(ended, order.argsort())


@pytest.mark.parametrize("compiled", [True, False])
@given(
    model=models(),
    sentences=st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=7),
        min_size=1,
        max_size=6,
    ),
    shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_fast_bilm_equals_the_readable_one(
    model: RandomModel,
    sentences: list[list[int]],
    shared: bool,
    seed: int,
    compiled: bool,
) -> None:
    bilm = load_bilm(model.files)
    state = random_state(bilm, len(sentences), seed)
    if shared:
        first = torch.zeros(len(sentences), dtype=torch.int64)
        state = select_state(state, first)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("elmo_cli.inference.fast_lstm.has_kernel", lambda name: False)
        assert_fast_equals_readable(bilm, sentences, state, shared=shared)


def test_many_products_equal_the_readable_bilm(
    bilm: BiLm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fast_bilms, "TABLE_BYTES", 30 * 4 * bilm.architecture.lstm.dim * 4
    )
    # The first step alone is more than one product, and tokens repeat between tables.
    lengths = [1 + i % 12 for i in range(MAX_ROWS)] + [1] * 100
    sentences = []
    for index, length in enumerate(lengths):
        sentences.append([(index * position) % 50 for position in range(length)])
    state = random_state(bilm, len(lengths), seed=2)
    assert_fast_equals_readable(bilm, sentences, state)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_of_torch_changes_nothing(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    files = make_model(small_architecture(), 1, tmp_path)
    vectors = random_tensor(4, 3)
    tokens = padded([[0, 1, 0], [2], [0, 1, 1, 3, 2, 0]])

    def run() -> Tensor:
        fast = FastBiLm(load_bilm(files), TYPES)
        layers, _ = fast.run(vectors, tokens, fast.zero_state(1))
        return layers

    expected = run()
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(run(), expected)
    finally:
        torch.set_default_dtype(torch.float32)


IDS = batch_to_ids([["the", "cat", "sat"], [], ["the", "dog"]])


def run_layers(runner: BiLmRunner, bilm: BiLm) -> Tensor:
    ids, mask = bilm.add_boundaries(IDS)
    return runner.run(bilm, ids, mask, [3, 0, 2])


def packed_layers(bilm: BiLm) -> Tensor:
    """Return the layers of `BiLm.run_bounded` with the packed LSTM."""
    ids, mask = bilm.add_boundaries(IDS)
    return bilm.run_bounded(
        mask,
        lengths=[3, 0, 2],
        encode=lambda rows, columns: bilm.token_encoder(ids[rows, columns]),
        run_lstm=run_packed,
    ).layers


def test_a_bilm_that_does_not_train_runs_fast_and_so_do_copies(bilm: BiLm) -> None:
    runner = BiLmRunner()
    expected = bilm(IDS).layers
    run_layers(runner, bilm)
    fast = runner._prepared
    assert_allclose(run_layers(runner, bilm), expected, atol=1e-6)
    assert runner._prepared is fast is not None
    for copied in (deepcopy(runner), pickle.loads(pickle.dumps(runner))):
        assert copied._prepared is None
        assert_allclose(run_layers(copied, bilm), expected, atol=1e-6)
        assert copied._prepared is not None


def test_a_bilm_that_trains_or_drops_runs_with_gradients(bilm: BiLm) -> None:
    runner = BiLmRunner()
    next(bilm.token_encoder.parameters()).requires_grad_(True)
    assert run_layers(runner, bilm).requires_grad
    bilm.requires_grad_(False)
    bilm.dropout.p = 0.5
    torch.manual_seed(0)
    dropped = run_layers(runner, bilm.train())
    torch.manual_seed(0)
    assert torch.equal(dropped, packed_layers(bilm))
    assert runner._prepared is None


def test_a_bilm_that_trains_encodes_each_distinct_token_once(bilm: BiLm) -> None:
    weights = list(bilm.requires_grad_(True).parameters())
    loss = bilm(IDS).layers.square().sum()
    expected = torch.autograd.grad(loss, weights)
    n_encoded = []

    def count_tokens(_module: object, _inputs: object, vectors: Tensor) -> None:
        n_encoded.append(len(vectors))

    bilm.token_encoder.register_forward_hook(count_tokens)
    loss = run_layers(BiLmRunner(), bilm).square().sum()
    gradients = torch.autograd.grad(loss, weights)
    distinct = {"<S>", "</S>", "the", "cat", "sat", "dog"}
    assert n_encoded == [len(distinct)]
    for gradient, reference in zip(gradients, expected, strict=True):
        assert_allclose(gradient, reference, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_half_precision_runs_fast_and_float64_exactly(
    bilm: BiLm, dtype: torch.dtype
) -> None:
    runner = BiLmRunner()
    expected = bilm(IDS).layers
    activations = run_layers(runner, bilm.to(dtype))
    assert activations.dtype == dtype
    assert (runner._prepared is None) == (dtype == torch.float64)
    assert_allclose(activations.double(), expected, atol=0.05)
    if dtype == torch.float64:
        assert torch.equal(activations, packed_layers(bilm))
