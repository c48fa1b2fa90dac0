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
from elmo_cli.pretrained.load import load_bilm
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
    """Assert equal layers and states of both biLMs. `state` has one row per sentence."""
    vectors = random_tensor(
        1 + max(map(max, sentences)), bilm.options.lstm.projection_dim
    )
    packing = pack([len(sentence) for sentence in sentences])
    tokens = padded(sentences)
    packed = torch.from_numpy(tokens[packing.sentences, packing.positions])
    order = torch.from_numpy(packing.order)
    both = vectors[packed], vectors[packed[packing.reversal]]
    outputs, ended = bilm.run_stacks(*both, packing.sizes, select_state(state, order))
    in_order = torch.from_numpy(np.lexsort((packing.positions, packing.sentences)))
    pairs = [(ahead, behind[packing.reversal]) for ahead, behind in outputs]
    pairs = [(vectors[packed], vectors[packed]), *pairs]
    expected = torch.stack([torch.cat(pair, dim=1)[in_order] for pair in pairs])
    expected_state = select_state(ended, order.argsort())
    start = select_state(state, torch.tensor([0])) if shared else state
    before = map_state(start, torch.clone)
    copied = deepcopy(bilm)
    fast = FastBiLm(copied, TYPES)
    assert (
        len(copied.forward_layers) == len(copied.backward_layers) == 0
    )  # The copy was removed.
    layers, end_state = fast.contextualize(vectors, tokens, start)
    assert_allclose(layers, expected, atol=TOLERANCE)
    for one, other in zip(
        state_tensors(end_state), state_tensors(expected_state), strict=True
    ):
        assert_allclose(one, other, atol=TOLERANCE)
    assert all(map(torch.equal, state_tensors(start), state_tensors(before)))


@pytest.mark.parametrize("compiled", [True, False])
@given(
    model=models(),
    sentences=st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1, max_size=6
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
        state = select_state(state, torch.zeros(len(sentences), dtype=torch.int64))
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("elmo_cli.inference.fast_lstm.has_kernel", lambda name: False)
        assert_fast_equals_readable(bilm, sentences, state, shared=shared)


def test_many_products_equal_the_readable_bilm(
    bilm: BiLm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_bilms, "TABLE_BYTES", 30 * 4 * bilm.options.lstm.dim * 4)
    # The first step alone is more than one product, and tokens repeat between tables.
    lengths = [1 + i % 12 for i in range(MAX_ROWS)] + [1] * 100
    sentences = [
        [(i * j) % 50 for j in range(length)] for i, length in enumerate(lengths)
    ]
    assert_fast_equals_readable(bilm, sentences, random_state(bilm, len(lengths), 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_of_torch_changes_nothing(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    files = make_model(small_architecture(), 1, tmp_path)
    vectors = random_tensor(4, 3)
    tokens = padded([[0, 1, 0], [2], [0, 1, 1, 3, 2, 0]])

    def run() -> Tensor:
        fast = FastBiLm(load_bilm(files), TYPES)
        return fast.contextualize(vectors, tokens, fast.zero_state(1))[0]

    expected = run()
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(run(), expected)
    finally:
        torch.set_default_dtype(torch.float32)


IDS = batch_to_ids([["the", "cat", "sat"], [], ["the", "dog"]])


def run_layers(runner: BiLmRunner, bilm: BiLm) -> Tensor:
    return runner.run(bilm, *bilm.add_boundaries(IDS), [3, 0, 2])


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
    fast = runner._fast
    assert_allclose(run_layers(runner, bilm), expected, atol=1e-6)
    assert runner._fast is fast is not None
    for copied in (deepcopy(runner), pickle.loads(pickle.dumps(runner))):
        assert copied._fast is None
        assert_allclose(run_layers(copied, bilm), expected, atol=1e-6)
        assert copied._fast is not None


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
    assert runner._fast is None


def test_a_bilm_that_trains_encodes_each_distinct_token_once(bilm: BiLm) -> None:
    weights = list(bilm.requires_grad_(True).parameters())
    expected = torch.autograd.grad(bilm(IDS).layers.square().sum(), weights)
    n_encoded = []
    bilm.token_encoder.register_forward_hook(
        lambda *call: n_encoded.append(len(call[2]))
    )
    gradients = torch.autograd.grad(
        run_layers(BiLmRunner(), bilm).square().sum(), weights
    )
    assert n_encoded == [len({"<S>", "</S>", "the", "cat", "sat", "dog"})]
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
    assert (runner._fast is None) == (dtype == torch.float64)
    assert_allclose(activations.double(), expected, atol=0.05)
    if dtype == torch.float64:
        assert torch.equal(activations, packed_layers(bilm))
