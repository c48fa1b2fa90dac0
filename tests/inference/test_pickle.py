"""Encoders of sentences as pickles and deep copies: they compute the same bits."""

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from cell_formulas import PROCESSORS, WAYS, processor
from conftest import needs_int8
from numpy.testing import assert_allclose
from strategies import make_model, small_architecture
from torch import Tensor

from elmo_cli.compiled import kernels
from elmo_cli.errors import InputError
from elmo_cli.inference.encoder import SentenceEncoder, make_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.pretrained.find import load_bilm
from elmo_cli.settings import InitialState

SENTENCES = [["the", "cat", "sat"], ["the", "dog"], ["naïve", "cat", "the", "cat"]]
PRECISIONS = ["float32", "bfloat16", "float16", pytest.param("int8", marks=needs_int8)]


def make(
    folder: Path, precision: Any, state: InitialState = "zero", **lstm: Any
) -> SentenceEncoder:
    """Make the encoder of a random model, whose layers have odd sizes."""
    content = small_architecture(**{"dim": 21, "projection_dim": 7, **lstm})
    content["char_cnn"]["activation"] = "tanh"
    types = compute_types(precision, torch.device("cpu"))
    return make_encoder(load_bilm(make_model(content, 1, folder)), types, state)


def run(encoder: SentenceEncoder) -> Tensor:
    with torch.inference_mode():
        return encoder.run(SENTENCES, range(len(SENTENCES))).clone()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_copies_compute_the_same_bits(
    initial_state: InitialState, precision: str, name: str, tmp_path: Path
) -> None:
    with processor(name):
        encoder = make(tmp_path, precision, initial_state)
        copied = deepcopy(encoder)
        loaded = pickle.loads(pickle.dumps(encoder))
        again = deepcopy(pickle.loads(pickle.dumps(copied)))  # A copy of a copy is complete, too.
        # Without kernels, the bits of a token's vector depend on the tokens that are encoded with
        # it. The cache of a copy is empty. The original's cache has vectors of the warm text.
        encoder._cache = deepcopy(encoder._cache)
        expected = run(encoder)
        for each in (copied, loaded, again):
            assert torch.equal(run(each), expected)
        if initial_state == "carry":  # A copy has states of its own.
            assert not torch.equal(run(copied), expected)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("source", WAYS)
@pytest.mark.parametrize("target", WAYS)
def test_a_pickle_can_go_to_another_kind_of_processor(
    source: str, target: str, precision: str, tmp_path: Path
) -> None:
    with processor(source):
        encoder = make(tmp_path, precision)
        expected, content = run(encoder), pickle.dumps(encoder)
    with processor(target):
        layers = run(pickle.loads(content))
    tolerance = 1e-6 if precision == "float32" else 0.05
    assert_allclose(layers.float(), expected.float(), atol=tolerance)
    if precision == "float32" and {source, target} <= {*PROCESSORS}:
        assert torch.equal(layers, expected)


@pytest.mark.skipif(not kernels.has_tiles(), reason="needs AMX and a C compiler")
@pytest.mark.parametrize("has_tiles", [True, False])
def test_a_bfloat16_pickle_needs_no_amx_on_either_side(
    has_tiles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_request_tiles", lambda: has_tiles)
    encoder = make(tmp_path, "bfloat16", projection_dim=32)
    expected, content = run(encoder), pickle.dumps(encoder)
    monkeypatch.setattr(kernels, "_request_tiles", lambda: not has_tiles)
    assert_allclose(run(pickle.loads(content)).float(), expected.float(), atol=0.05)


@needs_int8
def test_an_int8_pickle_needs_a_processor_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pickle.dumps(make(tmp_path, "int8"))
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False, raising=False)
    with pytest.raises(InputError, match=r"^a model in int8 requires a processor with AVX-512"):
        pickle.loads(content)
