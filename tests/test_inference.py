from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import architectures, make_model, seeds, small_architecture, word_architectures
from torch import Tensor

from elmo_cli.batching import pack
from elmo_cli.bilm import BiLm, BiLmState, map_state
from elmo_cli.inference import (
    PRODUCT_ROWS,
    FastBiLm,
    OneDnnProduct,
    Product,
    _steps_of_one_product,
    product,
)
from elmo_cli.weights import load_bilm

CPU = torch.device("cpu")
TOLERANCE = 1e-5

lengths_of_sentences = st.lists(st.integers(0, 7), min_size=1, max_size=6)

packs = pytest.mark.skipif(
    type(product(torch.ones(1, 1))) is not OneDnnProduct, reason="needs oneDNN"
)


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Products


@packs
@given(
    n_rows=st.integers(1, 2 * PRODUCT_ROWS),
    n_inputs=st.integers(1, 40),
    n_outputs=st.integers(1, 40),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_packed_product_is_the_plain_one(
    n_rows: int, n_inputs: int, n_outputs: int, with_bias: bool, seed: int
) -> None:
    weight = random_tensor(n_outputs, n_inputs, seed=seed)
    bias = random_tensor(n_outputs, seed=seed + 1) if with_bias else None
    inputs, other = random_tensor(n_rows, n_inputs), random_tensor(n_rows, n_outputs)
    plain, packed = Product(weight, bias), OneDnnProduct(weight, bias)
    expected = inputs @ weight.t() + (0 if bias is None else bias)
    before = other.clone()
    for candidate in (plain, packed):
        assert_allclose(candidate(inputs), expected, atol=TOLERANCE, rtol=TOLERANCE)
        total = candidate.plus(inputs, other)
        assert_allclose(total, expected + other, atol=TOLERANCE, rtol=TOLERANCE)
        assert torch.equal(other, before)


@packs
def test_a_packed_product_takes_rows_that_lie_apart_in_memory() -> None:
    weight = random_tensor(6, 4)
    inputs, other = random_tensor(5, 8)[:, 2:6], random_tensor(10, 6)[::2]
    expected = Product(weight).plus(inputs, other)
    assert_allclose(OneDnnProduct(weight).plus(inputs, other), expected, atol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_another_precision_are_not_packed(dtype: torch.dtype) -> None:
    assert type(product(torch.ones(2, 3, dtype=dtype))) is Product


@given(st.lists(st.integers(1, 2 * PRODUCT_ROWS), max_size=20))
def test_steps_share_a_product_up_to_its_rows(sizes: list[int]) -> None:
    groups = list(_steps_of_one_product(sizes))
    assert [size for group in groups for size in group] == sizes
    assert all(sum(group) <= PRODUCT_ROWS or len(group) == 1 for group in groups)
    # None is smaller than it need be.
    for group, following in pairwise(groups):
        assert sum(group) + following[0] > PRODUCT_ROWS


# The biLM


def random_state(bilm: BiLm, n_sentences: int, seed: int) -> BiLmState:
    generator = torch.Generator().manual_seed(seed)
    return map_state(
        bilm.initial_state(n_sentences),
        lambda values: 2 * torch.rand(values.shape, generator=generator) - 1,
    )


def assert_fast_equals_readable(bilm: BiLm, lengths: list[int], state: BiLmState) -> None:
    packing = pack(lengths)
    vectors = random_tensor(sum(lengths), bilm.options.lstm.projection_dim)
    expected, expected_state = bilm.contextualize(vectors.clone(), packing, state)
    found_state = map_state(state, torch.clone)
    found = FastBiLm(bilm, CPU, torch.float32).contextualize(vectors, packing, found_state)
    assert len(found) == len(expected) == bilm.options.n_layers
    for found_layer, expected_layer in zip(found, expected, strict=True):
        for one, other in zip(found_layer, expected_layer, strict=True):
            assert_allclose(one, other, atol=TOLERANCE)
    for found_ended, expected_ended in zip(found_state, expected_state, strict=True):
        for one_state, other_state in zip(found_ended, expected_ended, strict=True):
            assert_allclose(one_state.hidden, other_state.hidden, atol=TOLERANCE)
            assert_allclose(one_state.cell, other_state.cell, atol=TOLERANCE)


@given(
    content=st.one_of(architectures(), word_architectures()),
    seed=seeds,
    lengths=lengths_of_sentences,
    from_zero=st.booleans(),
)
def test_the_fast_bilm_gives_the_layers_and_states_of_the_readable_one(
    content: dict[str, Any],
    seed: int,
    lengths: list[int],
    from_zero: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bilm = load_bilm(make_model(content, seed, tmp_path_factory.mktemp("model")))
    n_sentences = len(lengths)
    zero = bilm.initial_state(n_sentences)
    state = zero if from_zero else random_state(bilm, n_sentences, seed % 1000)
    assert_fast_equals_readable(bilm, lengths, state)


@pytest.mark.parametrize("clip", [None, 0, 0.1])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("projects", [True, False])
def test_the_fast_bilm_knows_clips_residual_connections_and_projections(
    clip: float | None, residual: bool, projects: bool, tmp_path: Path
) -> None:
    content = small_architecture(
        dim=4,
        projection_dim=4,
        n_layers=3,
        cell_clip=clip,
        proj_clip=clip,
        use_skip_connections=residual,
    )
    bilm = load_bilm(make_model(content, 7, tmp_path, projects=projects))
    assert (bilm.layer_pairs()[0][0].projection is not None) == projects
    assert_fast_equals_readable(bilm, [5, 0, 2, 5, 9], random_state(bilm, 5, 3))


def test_the_fast_bilm_is_the_readable_one_where_steps_need_several_products(
    tmp_path: Path,
) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    lengths = [1 + i % 12 for i in range(PRODUCT_ROWS // 4)]
    lengths += [1] * PRODUCT_ROWS  # the first step alone is more than one product
    assert_fast_equals_readable(bilm, lengths, random_state(bilm, len(lengths), 2))


def test_the_zero_state_has_a_row_a_sentence(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    state = FastBiLm(bilm, CPU, torch.bfloat16).initial_state(4)
    assert len(state) == 2
    for layer in state:
        for direction in layer:
            assert (direction.hidden.shape, direction.cell.shape) == ((4, 3), (4, 5))
            assert not direction.hidden.any()
            assert not direction.cell.any()
            assert direction.cell.dtype == torch.bfloat16


@pytest.mark.cuda
def test_the_fast_bilm_on_a_gpu_is_the_readable_one_on_the_cpu(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    packing = pack([3, 1, 6])
    vectors = random_tensor(10, 3)
    expected, _ = bilm.contextualize(vectors, packing)
    fast = FastBiLm(bilm, torch.device("cuda", 0), torch.float32)
    found = fast.contextualize(vectors.cuda(), packing, fast.initial_state(3))
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one.forward.cpu(), other.forward, atol=TOLERANCE)
        assert_allclose(one.backward.cpu(), other.backward, atol=TOLERANCE)
