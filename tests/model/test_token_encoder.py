import json

import numpy as np
import pytest
import reference
import torch
from conftest import Golden
from hypothesis import given
from numpy.testing import assert_allclose
from strategies import WORDS, RandomModel, models, sentences, small_architecture

from elmo_cli.model import token_encoder
from elmo_cli.model.model_options import parse_options
from elmo_cli.model.token_encoder import CharacterEncoder, Highway
from elmo_cli.pretrained.find import load_bilm


def small_encoder(filters: list[list[int]], activation: str = "relu") -> CharacterEncoder:
    content = small_architecture()
    content["char_cnn"].update(filters=filters, activation=activation)
    options = parse_options(content).char_cnn
    assert options is not None
    torch.manual_seed(0)
    return CharacterEncoder(options, 3).requires_grad_(False)


def test_token_vectors_are_allennlps(golden: Golden) -> None:
    expected = golden.expected["token_vectors"]
    tokens = json.loads(expected.attrs["tokens"])
    encoder = golden.bilm.token_encoder
    vectors = encoder(encoder.token_ids(tokens))
    # AllenNLP's table of cached vectors keeps its row 0 for padding, whatever its token.
    assert not expected[0].any()
    assert_allclose(vectors[1:], expected[1:], atol=1e-5)
    end = golden.sentences[0].index(tokens[0])
    in_a_sentence = golden.expected["stateless/0"][0, end, : vectors.shape[1]]
    assert_allclose(vectors[0], in_a_sentence, atol=1e-5)


@given(model=models(), tokens=sentences(min_size=1))
def test_any_encoder_agrees_with_the_reference(model: RandomModel, tokens: list[str]) -> None:
    files, content = model
    encoder = load_bilm(files).token_encoder
    arrays = reference.read_arrays(files.weights)
    expected = [reference.token_vector(token, content, arrays, WORDS) for token in tokens]
    assert_allclose(encoder(encoder.token_ids(tokens)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 4, 50])
@pytest.mark.parametrize("like_tokens", [1, 2, 128])
@pytest.mark.parametrize("tokens", [[], [""], ["x" * 48, "a", "", "ab"], ["x" * 46, "ab"]])
def test_leaving_out_padding_changes_nothing(
    width: int, like_tokens: int, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", like_tokens)
    encoder = small_encoder([[width, 3], [1, 2]])
    ids = encoder.token_ids(tokens)
    every_position = encoder.convolve(encoder.char_embedding(ids))
    (highway,) = encoder.highways
    assert encoder.projection is not None
    assert_allclose(encoder(ids), encoder.projection(highway(every_position)), atol=1e-6)


def test_tokens_of_similar_length_are_convolved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", 2)
    encoder = small_encoder([[3, 2]])
    shapes: list[tuple[int, ...]] = []
    encoder.convolutions[0].register_forward_pre_hook(
        lambda _, inputs: shapes.append(tuple(inputs[0].shape[:2]))
    )
    encoder(encoder.token_ids(["x" * 20, "ab", "x" * 19, "a", "x" * 18]))
    # A token's characters, its two marks, and a window of padding.
    assert shapes == [(2, 2 + 2 + 3), (2, 19 + 2 + 3), (1, 20 + 2 + 3)]


def test_a_new_highway_lets_its_input_pass() -> None:
    highway = Highway(8).requires_grad_(False)
    inputs = torch.zeros(1, 8)
    highway.transform.bias.fill_(1.0)
    gate = 1 / (1 + np.exp(2.0))  # closed by the bias of -2 with which training starts
    assert_allclose(highway(inputs), np.full((1, 8), gate), rtol=1e-6)
