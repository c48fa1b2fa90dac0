"""The readable biLM with its encoder of tokens and scalar mix."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.model import token_encoder
from elmo_cli.model.architecture import LstmArchitecture
from elmo_cli.model.bilm import BiLm, BiLmState, Dropout, map_state
from elmo_cli.model.lstm import Lstm, LstmState
from elmo_cli.model.options_json import parse_architecture
from elmo_cli.model.packing import pack
from elmo_cli.model.scalar_mix import ScalarMix
from elmo_cli.model.token_encoder import CharacterEncoder, HighwayLayer
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support import reference
from tests.support.golden import Golden
from tests.support.states import GOLDEN_BATCHES, carried_layers, random_state
from tests.support.strategies import (
    WORDS,
    batches,
    models,
    sentences,
    small_architecture,
)

TOLERANCE = 1e-5


def run(
    bilm: BiLm, sentences: list[list[str]], state: Any = None
) -> tuple[list[Any], BiLmState]:
    """Return the layers of each sentence, boundaries included, and the final state."""
    output = bilm(bilm.sentence_ids(sentences), state)
    lengths = [len(sentence) + 2 for sentence in sentences]
    assert output.mask.sum(dim=1).tolist() == lengths
    layers = []
    for row, length in enumerate(lengths):
        layers.append(output.layers[:, row, :length].numpy())
    return layers, output.state


def state_of(state: BiLmState, row: int) -> list[Any]:
    """Return the state of one sentence in the form of the reference."""
    layers = []
    for layer in state:
        forward, backward = (
            reference.CellState(cell.hidden[row].numpy(), cell.cell[row].numpy())
            for cell in layer
        )
        layers.append((forward, backward))
    return layers


def test_sentences_from_the_zero_state_give_allennlps_layers(golden: Golden) -> None:
    layers, _ = run(golden.bilm, golden.sentences)
    for i, activations in enumerate(layers):
        without_boundaries = golden.expected[f"stateless/{i}"][()]
        with_boundaries = golden.expected[f"with_boundaries/{i}"][()]
        assert_allclose(activations[:, 1:-1], without_boundaries, atol=TOLERANCE)
        assert_allclose(activations, with_boundaries, atol=TOLERANCE)


def test_carried_state_gives_allennlps_layers(golden: Golden) -> None:
    batches = [[golden.sentences[i] for i in batch] for batch in GOLDEN_BATCHES]
    for index, layers in enumerate(carried_layers(golden.bilm, batches)):
        for slot, i in enumerate(GOLDEN_BATCHES[index]):
            end = len(golden.sentences[i]) + 1
            activations = layers[:, slot, 1:end]
            expected = golden.expected[f"stateful/{index}/{i}"][()]
            assert_allclose(activations, expected, atol=golden.tolerance(i))


def test_the_reference_agrees_with_allennlp(golden: Golden) -> None:
    arrays = reference.read_arrays(golden.files.weights)
    for i in (0, 2, 5):
        layers, _ = reference.bilm(golden.sentences[i], golden.options, arrays)
        expected = golden.expected[f"with_boundaries/{i}"][()]
        assert_allclose(layers, expected, atol=TOLERANCE)
    state = None
    slot = 1
    for index, batch in enumerate(GOLDEN_BATCHES[:2]):
        i = batch[slot]
        layers, state = reference.bilm(
            golden.sentences[i], golden.options, arrays, state=state
        )
        expected = golden.expected[f"stateful/{index}/{i}"][()]
        assert_allclose(layers[:, 1:-1], expected, atol=TOLERANCE)


@given(model=models(), sentences=batches())
def test_any_model_agrees_with_the_reference(
    model: Any, sentences: list[list[str]]
) -> None:
    files, content = model
    # Some of these models let every rounding grow, so in float64.
    bilm = load_bilm(files).double()
    start = map_state(random_state(bilm, len(sentences)), torch.Tensor.double)
    layers, ended = run(bilm, sentences, start)
    arrays = reference.read_arrays(files.weights)
    for i, sentence in enumerate(sentences):
        before = state_of(start, i)
        expected, state = reference.bilm(sentence, content, arrays, WORDS, state=before)
        assert_allclose(layers[i], expected, atol=1e-9)
        for layer, expected_layer in zip(state_of(ended, i), state, strict=True):
            for cell, expected_cell in zip(layer, expected_layer, strict=True):
                assert_allclose(cell.hidden, expected_cell.hidden, atol=1e-9)
                assert_allclose(cell.cell, expected_cell.cell, atol=1e-9)


def test_dropout_changes_layers_in_training_alone() -> None:
    torch.manual_seed(0)
    bilm = BiLm(parse_architecture(small_architecture()), dropout=0.5)
    ids = bilm.sentence_ids([["a", "b", "c"]])
    assert not torch.equal(bilm(ids).layers, bilm(ids).layers)
    bilm.eval()
    assert torch.equal(bilm(ids).layers, bilm(ids).layers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.7, 1.0])
def test_dropout_drops_its_share_and_scales_the_rest(
    share: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    values = torch.full((300, 301), 2.0, dtype=dtype).requires_grad_()
    output = Dropout(share)(values)
    output.sum().backward()
    assert values.grad is not None
    is_kept = output != 0
    share_dropped = (~is_kept).float().mean()
    assert share_dropped == pytest.approx(share, abs=0.01)
    assert torch.equal(values.grad != 0, is_kept)
    if is_kept.any():
        kept = output[is_kept].unique().tolist()
        assert kept == pytest.approx([2 / (1 - share)], rel=0.01)
    torch.manual_seed(0)
    assert torch.equal(Dropout(share)(values), output)


def test_layer_norm_of_padding_alone_is_finite() -> None:
    mix = ScalarMix(1, do_layer_norm=True)
    mixed = mix([torch.zeros(2, 3, 4)], torch.zeros(2, 3))
    assert mixed.isfinite().all()


def test_layer_norm_is_precise_in_half_precision() -> None:
    mix = ScalarMix(1, do_layer_norm=True)
    layer = 200 * torch.randn(4, 50, 16)
    expected = mix([layer]).detach()
    mixed = mix([layer.half()]).detach()
    assert_allclose(mixed, expected, atol=2e-3)


def test_wrong_numbers_of_layers_are_an_error() -> None:
    with pytest.raises(ElmoError, match=r"^initial_scalar_parameters: expected 3 "):
        ScalarMix(3, initial_scalar_parameters=[0.0, 1.0])
    with pytest.raises(ElmoError, match=r"^tensors: expected 3 layers, found 2$"):
        ScalarMix(3)([torch.zeros(1, 1, 1)] * 2)


def small_encoder(
    filters: list[list[int]], activation: str = "relu"
) -> CharacterEncoder:
    content = small_architecture()
    content["char_cnn"].update(filters=filters, activation=activation)
    architecture = parse_architecture(content).char_cnn
    assert architecture is not None
    torch.manual_seed(0)
    return CharacterEncoder(architecture, 3).requires_grad_(False)


def test_token_vectors_are_allennlps(golden: Golden) -> None:
    expected = golden.expected["token_vectors"]
    tokens = json.loads(expected.attrs["tokens"])
    encoder = golden.bilm.token_encoder
    vectors = encoder(encoder.token_ids(tokens))
    # AllenNLP's table of cached vectors keeps its row 0 for padding, whatever its
    # token.
    assert not expected[0].any()
    assert_allclose(vectors[1:], expected[1:], atol=1e-5)
    end = golden.sentences[0].index(tokens[0])
    in_a_sentence = golden.expected["stateless/0"][0, end, : vectors.shape[1]]
    assert_allclose(vectors[0], in_a_sentence, atol=1e-5)


@given(model=models(), tokens=sentences(min_size=1))
def test_any_encoder_agrees_with_the_reference(model: Any, tokens: list[str]) -> None:
    files, content = model
    encoder = load_bilm(files).token_encoder
    arrays = reference.read_arrays(files.weights)
    vectors = encoder(encoder.token_ids(tokens))
    for vector, token in zip(vectors, tokens, strict=True):
        expected = reference.token_vector(token, content, arrays, WORDS)
        assert_allclose(vector, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 4, 50])
@pytest.mark.parametrize("like_tokens", [1, 2, 128])
@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [""],
        ["x" * 48, "a", "", "ab"],
        ["x" * 46, "ab"],
    ],
)
def test_leaving_out_padding_changes_nothing(
    width: int,
    like_tokens: int,
    tokens: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", like_tokens)
    encoder = small_encoder([[width, 3], [1, 2]])
    ids = encoder.token_ids(tokens)
    every_position = encoder.convolve(encoder.char_embedding(ids))
    (highway,) = encoder.highways
    assert encoder.projection is not None
    expected = encoder.projection(highway(every_position))
    assert_allclose(encoder(ids), expected, atol=1e-6)


def test_tokens_of_similar_length_are_convolved_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", 2)
    encoder = small_encoder([[3, 2]])
    shapes: list[tuple[int, ...]] = []

    def record_shape(_: object, inputs: tuple[torch.Tensor, ...]) -> None:
        n_tokens, n_characters, *_ = inputs[0].shape
        shapes.append((n_tokens, n_characters))

    encoder.convolutions[0].register_forward_pre_hook(record_shape)
    encoder(encoder.token_ids(["x" * 20, "ab", "x" * 19, "a", "x" * 18]))
    # A token's characters, its two marks, and a window of padding.
    assert shapes == [
        (2, 2 + 2 + 3),
        (2, 19 + 2 + 3),
        (1, 20 + 2 + 3),
    ]


def test_a_new_highway_lets_its_input_pass() -> None:
    highway = HighwayLayer(8).requires_grad_(False)
    inputs = torch.zeros(1, 8)
    highway.transform.bias.fill_(1.0)
    gate = 1 / (1 + np.exp(2.0))  # closed by the bias of -2 with which training starts
    assert_allclose(highway(inputs), np.full((1, 8), gate), rtol=1e-6)


@given(lengths=st.lists(st.integers(0, 7), max_size=8))
def test_sentences_are_packed_step_after_step(lengths: list[int]) -> None:
    longest_first = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    sizes = []
    sentences = []
    positions = []
    mirrored = []
    for step in range(max(lengths, default=0)):
        running = [i for i in longest_first if step < lengths[i]]
        sizes.append(len(running))
        sentences += running
        positions += [step] * len(running)
        mirrored += [lengths[i] - 1 - step for i in running]
    packing = pack(lengths)
    assert packing.order.tolist() == longest_first
    assert packing.sizes == sizes
    assert packing.sentences.tolist() == sentences
    assert packing.positions.tolist() == positions
    assert [sentences[i] for i in packing.reversal] == sentences
    assert [positions[i] for i in packing.reversal] == mirrored


def test_the_given_state_is_not_changed() -> None:
    architecture = LstmArchitecture(
        dim=5,
        projection_dim=3,
        n_layers=1,
        cell_clip=0.4,
        proj_clip=0.4,
    )
    lstm = Lstm(architecture).requires_grad_(False)
    hidden = torch.randn(2, 3)
    cell = torch.randn(2, 5)
    hidden_before = hidden.clone()
    cell_before = cell.clone()
    inputs = torch.randn(3, 3)
    lstm(inputs, [2, 1], LstmState(hidden, cell))
    assert torch.equal(hidden, hidden_before)
    assert torch.equal(cell, cell_before)
