"""The fast biLM against the readable one."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from states import random_state
from strategies import (
    RandomModel,
    make_model,
    models,
    padded,
    random_tensor,
    seeds,
    small_architecture,
)
from torch import Tensor

from elmo_cli.inference import fast_bilm as fast_bilms
from elmo_cli.inference.fast_bilm import MAX_ROWS, FastBiLm
from elmo_cli.inference.precision import compute_types
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state, state_tensors
from elmo_cli.model.lstm import pack
from elmo_cli.pretrained.find import load_bilm

CPU = torch.device("cpu")
TOLERANCE = 1e-5

sentences_of_tokens = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1, max_size=6
)


def assert_fast_equals_readable(
    bilm: BiLm, sentences: list[list[int]], state: BiLmState, *, shared: bool = False
) -> None:
    """Assert equal layers and states of both biLMs. `state` has one row per sentence."""
    vectors = random_tensor(1 + max(map(max, sentences)), bilm.options.lstm.projection_dim)
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
    before, copied = map_state(start, torch.clone), deepcopy(bilm)
    fast = FastBiLm(copied, compute_types("float32", CPU))
    assert len(copied.forward_layers) == len(copied.backward_layers) == 0  # The copy was removed.
    layers, end_state = fast.contextualize(vectors, tokens, start)
    assert_allclose(layers, expected, atol=TOLERANCE)
    for one, other in zip(state_tensors(end_state), state_tensors(expected_state), strict=True):
        assert_allclose(one, other, atol=TOLERANCE)
    for one, other in zip(state_tensors(start), state_tensors(before), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("compiled", [True, False])
@given(model=models(), sentences=sentences_of_tokens, shared=st.booleans(), seed=seeds)
def test_fast_bilm_equals_the_readable_one(
    model: RandomModel, sentences: list[list[int]], shared: bool, seed: int, compiled: bool
) -> None:
    bilm = load_bilm(model.files)
    state = random_state(bilm, len(sentences), seed)
    if shared:
        state = select_state(state, torch.zeros(len(sentences), dtype=torch.int64))
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("elmo_cli.inference.fast_lstm.find_kernel", lambda *names: None)
        assert_fast_equals_readable(bilm, sentences, state, shared=shared)


def test_fast_bilm_equals_the_readable_one_in_several_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    monkeypatch.setattr(fast_bilms, "TABLE_BYTES", 30 * 4 * bilm.options.lstm.dim * 4)
    # The first step alone is more than one product, and tokens repeat between tables.
    lengths = [1 + i % 12 for i in range(MAX_ROWS)] + [1] * 100
    sentences = [[(i * j) % 50 for j in range(length)] for i, length in enumerate(lengths)]
    assert_fast_equals_readable(bilm, sentences, random_state(bilm, len(lengths), 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_of_torch_changes_nothing(dtype: torch.dtype, tmp_path: Path) -> None:
    files = make_model(small_architecture(), 1, tmp_path)
    vectors, tokens = random_tensor(4, 3), padded([[0, 1, 0], [2], [0, 1, 1, 3, 2, 0]])

    def run() -> Tensor:
        fast = FastBiLm(load_bilm(files), compute_types("float32", CPU))
        return fast.contextualize(vectors, tokens, fast.zero_state(1))[0]

    expected = run()
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(run(), expected)
    finally:
        torch.set_default_dtype(torch.float32)
