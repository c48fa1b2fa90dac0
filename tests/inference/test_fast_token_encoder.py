"""The fast token encoder against the readable one."""

import copy

import numpy as np
import pytest
import torch
from cell_formulas import PROCESSORS, processor
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import random_tensor
from torch import nn

from elmo_cli.inference.encoder import prepare_token_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.model.model_options import CharacterOptions
from elmo_cli.model.token_encoder import CharacterEncoder


def prepare(encoder: CharacterEncoder) -> nn.Module:
    """Return a fast copy of an encoder."""
    types = compute_types("float32", torch.device("cpu"))
    return prepare_token_encoder(copy.deepcopy(encoder), types)


def encoder(activation: str, seed: int = 0) -> CharacterEncoder:
    torch.manual_seed(seed)
    filters = ((1, 3), (2, 5), (4, 9))
    options = CharacterOptions(5, filters, n_highway=2, activation=activation)
    return CharacterEncoder(options, projection_dim=7).requires_grad_(False)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", PROCESSORS)
@given(
    words=st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=9), seed=st.integers(0, 9)
)
def test_token_vectors_equal_the_readable_encoder_one_by_one(
    name: str, activation: str, words: list[str], seed: int
) -> None:
    readable = encoder(activation, seed)
    ids = readable.token_ids(words)
    with processor(name), torch.inference_mode():
        fast = prepare(readable)
        vectors = fast(ids)
        alone = torch.cat([fast(row[None]) for row in ids])
    assert_allclose(vectors, readable(ids), atol=1e-6)
    assert torch.equal(vectors, alone)


@pytest.mark.skipif(not PROCESSORS, reason="needs a C compiler when installed, on Linux")
def test_a_tanh_keeps_the_digits_of_small_values() -> None:
    values = torch.logspace(-30, 2, 400).reshape(4, 100) * random_tensor(4, 100).sign()
    expected = np.tanh(values.double().numpy())
    fast = prepare(encoder("tanh"))
    assert_allclose(fast.get_submodule("activation")(values.clone()), expected, rtol=5e-7)
