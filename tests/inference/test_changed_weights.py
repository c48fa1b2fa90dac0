"""Weights that are changed after loading: the next call computes with them."""

import pickle
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, batch_to_ids
from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.bilm import BiLm
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.commands import TINY
from tests.support.runs import content
from tests.support.strategies import make_model, small_architecture

SENTENCE = ["the", "cat", "sat"]
IDS = batch_to_ids([SENTENCE])


def randomize(bilm: BiLm) -> None:
    for parameter in bilm.parameters():
        nn.init.normal_(parameter, 0, 0.1)


def change_token_encoder(bilm: BiLm) -> None:
    with torch.inference_mode():
        next(bilm.token_encoder.parameters()).mul_(2)


def load_halves(bilm: BiLm, *, assign: bool = False) -> None:
    halves = {}
    for name, values in bilm.state_dict().items():
        halves[name] = values / 2
    bilm.load_state_dict(halves, assign=assign)


def replace_data_twice(bilm: BiLm) -> None:
    forward, _ = bilm.layer_pairs()[0]
    weight = forward.gates.weight
    for _ in range(2):  # The second tensor may get the memory of the original.
        weight.data = weight.data / 2


def train(bilm: BiLm, *, fused: bool = False) -> None:
    bilm.requires_grad_(True)
    bilm(IDS).layers.sum().backward()
    optimizer = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=fused)
    optimizer.step()
    bilm.requires_grad_(False)


def reverse_rows(bilm: BiLm) -> None:
    _, backward = bilm.layer_pairs()[-1]
    rows = backward.gates.weight.detach().numpy()
    rows[:] = rows[::-1].copy()


COUNTED = [
    randomize,
    change_token_encoder,
    load_halves,
    replace_data_twice,
    train,
    partial(load_halves, assign=True),
]
UNCOUNTED = [
    reverse_rows,
    partial(train, fused=True),
]
"""Changes that torch does not count."""
changes = pytest.mark.parametrize("change", [*COUNTED, *UNCOUNTED])


@pytest.fixture
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder(model=TINY)


def expected_layers(bilm: BiLm) -> Any:
    return bilm(IDS).layers[:, 0, 1:-1]


def assert_gives_mean(elmo: Elmo, *words: torch.Tensor) -> None:
    """Assert that a module returns the mean of the layers that its biLM has now."""
    expected = expected_layers(elmo.bilm).mean(dim=0)
    values = elmo(IDS, *words)["elmo_representations"][0][0]
    assert_allclose(values.detach(), expected, atol=1e-5)


@changes
def test_changes_of_elmo_bilm_take_effect(embedder: ElmoEmbedder, change: Any) -> None:
    before = embedder.embed_sentence(SENTENCE)
    sha256 = embedder.content_sha256
    bilm = embedder.elmo_bilm
    original = deepcopy(bilm.state_dict())
    change(bilm)
    if change in UNCOUNTED:
        embedder.reload_weights()
    changed = embedder.embed_sentence(SENTENCE)
    assert not np.allclose(changed, before, atol=1e-4)
    assert_allclose(changed, expected_layers(bilm), atol=1e-5)
    assert embedder.content_sha256 != sha256
    bilm.load_state_dict(original)
    assert_array_equal(embedder.embed_sentence(SENTENCE), before)
    assert embedder.content_sha256 == sha256


@changes
def test_changes_of_a_frozen_module_take_effect(change: Any) -> None:
    elmo = Elmo(model=TINY, dropout=0.0, vocab_to_cache=["cat"])
    hub = HubElmo(TINY)
    elmo(IDS)
    hub([SENTENCE])
    for module in (elmo, hub):
        change(module.bilm)
        if change in UNCOUNTED:
            module.reload_weights()
    assert_gives_mean(elmo)
    elmo.reload_weights()
    word_inputs = torch.tensor([[1, 0, 1]])
    assert_gives_mean(elmo, word_inputs)
    expected = expected_layers(hub.bilm).mean(dim=0)
    values = hub([SENTENCE])["elmo"][0]
    assert_allclose(values.detach(), expected, atol=1e-5)


@changes
def test_changes_of_a_module_in_bfloat16_take_effect(change: Any) -> None:
    elmo = Elmo(model=TINY, dropout=0.0, precision="bfloat16")
    elmo(IDS)
    change(elmo.bilm)
    if change in UNCOUNTED:
        elmo.reload_weights()
    expected = expected_layers(elmo.bilm).mean(dim=0)
    values = elmo(IDS)["elmo_representations"][0][0]
    difference = torch.linalg.norm(values - expected) / torch.linalg.norm(expected)
    assert 1e-5 < difference < 0.03


def test_training_renews_the_copy_of_a_module() -> None:
    elmo = Elmo(model=TINY, dropout=0.0)
    elmo(IDS)
    elmo.bilm.requires_grad_(True)
    (representation,) = elmo(IDS)["elmo_representations"]
    representation.sum().backward()
    optimizer = torch.optim.SGD(elmo.bilm.parameters(), lr=0.1, fused=True)
    optimizer.step()
    elmo.bilm.requires_grad_(False)
    assert_gives_mean(elmo)


def test_unchanged_weights_are_not_copied_again(embedder: ElmoEmbedder) -> None:
    engine = embedder.engine
    embedder.elmo_bilm(IDS)
    assert embedder.engine is engine
    randomize(embedder.elmo_bilm)
    changed = embedder.engine
    assert changed is not engine
    assert embedder.engine is changed


@torch.inference_mode()
def test_changes_in_inference_mode_take_effect(embedder: ElmoEmbedder) -> None:
    before = embedder.embed_sentence(SENTENCE)
    forward, _ = embedder.elmo_bilm.layer_pairs()[0]
    forward.gates.weight.mul_(2)
    after = embedder.embed_sentence(SENTENCE)
    assert not np.allclose(after, before, atol=1e-4)

    elmo = Elmo(model=TINY, dropout=0.0)
    elmo(IDS)
    forward, _ = elmo.bilm.layer_pairs()[0]
    forward.gates.weight.mul_(2)
    elmo.reload_weights()  # Its weights were created in inference mode.
    assert_gives_mean(elmo)


def test_all_methods_and_copies_use_changed_weights(
    embedder: ElmoEmbedder, tmp_path: Path
) -> None:
    randomize(embedder.elmo_bilm)
    expected = expected_layers(embedder.elmo_bilm)
    text = tmp_path / "text"
    text.write_text(" ".join(SENTENCE))
    embedder.embed_file(text, tmp_path / "out")
    attributes, _, datasets = content(tmp_path / "out")
    assert attributes["model_sha256"] == embedder.content_sha256
    assert_allclose(datasets["0"], expected, atol=1e-5)
    (padded,), _ = embedder.batch_to_embeddings([SENTENCE])
    assert_allclose(padded, expected, atol=1e-5)
    (values,) = embedder.embed_sentences([SENTENCE])
    assert_allclose(values, expected, atol=1e-5)
    for copied in (deepcopy(embedder), pickle.loads(pickle.dumps(embedder))):
        assert_allclose(copied.embed_sentence(SENTENCE), expected, atol=1e-5)
    (vector,) = embedder.encode([SENTENCE], device="cpu")
    assert_allclose(vector, expected.mean(dim=(0, 1)), atol=1e-5)


def test_a_model_with_changed_weights_is_not_saved(
    embedder: ElmoEmbedder, tmp_path: Path
) -> None:
    randomize(embedder.elmo_bilm)
    message = r"^elmo_bilm: its weights differ from the files"
    with pytest.raises(ModelError, match=message):
        embedder.save_pretrained(tmp_path / "saved")


def test_changed_weights_continue_a_carried_state() -> None:
    carrying = ElmoEmbedder(model=TINY, state="carry")
    bilm = carrying.elmo_bilm
    carrying.embed_batch([SENTENCE])
    state = bilm(IDS).state
    load_halves(bilm)
    output = bilm(bilm.sentence_ids([["a"]]), state)
    expected = output.layers[:, 0, 1:-1]
    assert_allclose(carrying.embed_sentence(["a"]), expected, atol=1e-5)


def test_the_bilm_of_an_embedder_can_be_replaced(
    embedder: ElmoEmbedder, tmp_path: Path
) -> None:
    other = make_model(small_architecture(), 3, tmp_path)
    embedder.elmo_bilm = load_bilm(other)
    expected = ElmoEmbedder(other.options, other.weights).embed_sentence(SENTENCE)
    assert_allclose(embedder.embed_sentence(SENTENCE), expected, atol=1e-6)
    assert embedder.architecture.width == expected.shape[-1]
