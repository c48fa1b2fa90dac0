"""The biLM of a module: fast where it does not train, and always of its present weights."""

import pickle
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_allclose
from strategies import make_model, small_architecture
from torch import Tensor

from elmo_cli import batch_to_ids
from elmo_cli.inference.fast_bilm import BiLmRunner
from elmo_cli.model.bilm import BiLm
from elmo_cli.pretrained.find import load_bilm

IDS = batch_to_ids([["the", "cat", "sat"], [], ["the", "dog"]])

pytestmark = pytest.mark.usefixtures("small_weights_are_mapped")


@pytest.fixture
def bilm(tmp_path: Path) -> BiLm:
    return load_bilm(make_model(small_architecture(), 1, tmp_path))


def layers(runner: BiLmRunner, bilm: BiLm) -> Tensor:
    return runner.run(bilm, *bilm.add_boundaries(IDS), [3, 0, 2])


def test_a_bilm_that_does_not_train_runs_fast_and_so_do_copies(bilm: BiLm) -> None:
    runner, expected = BiLmRunner(), bilm(IDS).layers
    layers(runner, bilm)
    fast = runner._fast
    assert_allclose(layers(runner, bilm), expected, atol=1e-6)
    assert runner._fast is fast is not None
    for copied in (deepcopy(runner), pickle.loads(pickle.dumps(runner))):
        assert copied._fast is None
        assert_allclose(layers(copied, bilm), expected, atol=1e-6)
        assert copied._fast is not None


def test_a_bilm_that_trains_or_drops_runs_with_gradients(bilm: BiLm) -> None:
    runner = BiLmRunner()
    next(bilm.token_encoder.parameters()).requires_grad_(True)
    assert layers(runner, bilm).requires_grad
    bilm.requires_grad_(False)
    bilm.dropout.p = 0.5
    torch.manual_seed(0)
    dropped = layers(runner, bilm.train())
    torch.manual_seed(0)
    assert torch.equal(dropped, bilm(IDS).layers)
    assert runner._fast is None


def test_a_bilm_that_trains_encodes_each_distinct_token_once(bilm: BiLm) -> None:
    weights = list(bilm.requires_grad_(True).parameters())
    expected = torch.autograd.grad(bilm(IDS).layers.square().sum(), weights)
    n_encoded = []
    bilm.token_encoder.register_forward_hook(lambda *call: n_encoded.append(len(call[2])))
    gradients = torch.autograd.grad(layers(BiLmRunner(), bilm).square().sum(), weights)
    assert n_encoded == [len({"<S>", "</S>", "the", "cat", "sat", "dog"})]
    for gradient, reference in zip(gradients, expected, strict=True):
        assert_allclose(gradient, reference, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_half_precision_runs_fast_and_float64_exactly(bilm: BiLm, dtype: torch.dtype) -> None:
    runner, expected = BiLmRunner(), bilm(IDS).layers
    activations = layers(runner, bilm.to(dtype))
    assert activations.dtype == dtype
    assert (runner._fast is None) == (dtype == torch.float64)
    assert_allclose(activations.double(), expected, atol=0.05)
    if dtype == torch.float64:
        assert torch.equal(activations, bilm(IDS).layers)
