"""HubElmo takes what TensorFlow Hub's ELMo took, and returns its outputs."""

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli import ElmoEmbedder, HubElmo
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.golden import GOLDEN
from tests.support.strategies import RandomModel, batches, models

TINY = GOLDEN / "relu"
SENTENCES = ["The cat sat on the mat", "bank", "", "Yes ."]
TOKENS = [sentence.split() for sentence in SENTENCES]
PADDED = [row + [""] * (8 - len(row)) for row in TOKENS]
FILLED = [[token or "beyond" for token in row] for row in PADDED]
LENGTHS = [6, 1, 0, 2]
MAPPING = {"tokens": PADDED, "sequence_len": LENGTHS}


@pytest.fixture(scope="module")
def hub() -> HubElmo:
    """Return a golden model with a mix that is not the average."""
    module = HubElmo(TINY)
    values = [1.3, 0.5, -1, 0.2]
    with torch.no_grad():
        for parameter, value in zip(module.mix.parameters(), values, strict=True):
            parameter.fill_(value)
    return module


def expected_outputs(
    embedder: ElmoEmbedder, tokens: Sequence[list[str]], n_steps: int, hub: HubElmo
) -> dict[str, Any]:
    """Compute the outputs in plain numpy, from each sentence's activations."""
    n_layers = embedder.architecture.n_layers
    width = embedder.architecture.width
    layers = np.zeros((n_layers, len(tokens), n_steps, width))
    for i, sentence in enumerate(tokens):
        layers[:, i, : len(sentence)] = embedder.embed_sentence(sentence)
    raw = np.exp([parameter.item() for parameter in hub.mix.scalar_parameters])
    weights = hub.mix.gamma.item() * raw / raw.sum()
    mixed = np.einsum("l,lbtw->btw", weights, layers)
    n_tokens = [[max(1, len(sentence))] for sentence in tokens]

    half = width // 2
    outputs = {"word_emb": layers[0, :, :, :half]}
    for layer in range(1, n_layers):
        outputs[f"lstm_outputs{layer}"] = layers[layer]
    outputs["elmo"] = mixed
    outputs["default"] = mixed.sum(axis=1) / n_tokens
    outputs["sequence_len"] = np.array([len(sentence) for sentence in tokens])
    return outputs


def assert_outputs(outputs: dict[str, Tensor], expected: dict[str, Any]) -> None:
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        is_float = name != "sequence_len"
        assert outputs[name].dtype == (torch.float32 if is_float else torch.int64)
        assert outputs[name].shape == values.shape, name
        assert_allclose(outputs[name].detach().cpu(), values, atol=1e-5, rtol=1e-5)


def test_sentences_are_split_on_spaces(hub: HubElmo, tiny: ElmoEmbedder) -> None:
    expected = expected_outputs(tiny, TOKENS, 6, hub)
    assert_outputs(hub(SENTENCES), expected)
    wide = [f"  {sentence.replace(' ', '  ')} " for sentence in SENTENCES]
    assert_outputs(hub(wide), expected)
    # On spaces alone: "a\tb" was one token, and is.
    outputs = hub(["a\tb\u3000c"])
    assert outputs["elmo"].shape == (1, 1, 32)


@pytest.mark.parametrize(
    "lengths", [LENGTHS, torch.tensor(LENGTHS), np.array(LENGTHS), None]
)
def test_tokens_keep_the_places_of_their_padding(
    hub: HubElmo, tiny: ElmoEmbedder, lengths: Any
) -> None:
    expected = expected_outputs(tiny, TOKENS, 8, hub)
    assert_outputs(hub(PADDED, lengths), expected)
    assert_outputs(hub(np.array(PADDED), lengths), expected)
    if lengths is not None:
        assert_outputs(hub(FILLED, lengths), expected)


def test_signatures_are_called_as_in_tensorflow_2(
    hub: HubElmo, tiny: ElmoEmbedder
) -> None:
    default = hub.signatures["default"]
    expected = expected_outputs(tiny, TOKENS, 6, hub)
    assert_outputs(default(SENTENCES), expected)
    assert_outputs(default(text=SENTENCES), expected)
    with pytest.raises(InputError, match=r"^signature default: expected sentences, "):
        default(TOKENS)

    tokens = hub.signatures["tokens"]
    expected = expected_outputs(tiny, TOKENS, 8, hub)
    assert_outputs(tokens(tokens=FILLED, sequence_len=LENGTHS), expected)
    with pytest.raises(InputError, match=r"^signature tokens: expected lists of tok"):
        tokens(tokens=SENTENCES, sequence_len=LENGTHS)


@settings(max_examples=15)
@given(
    model=models(),
    batch=batches(max_size=5),
    padding=st.integers(0, 3),
)
def test_any_model_and_padding_gives_equal_results(
    model: RandomModel, batch: list[list[str]], padding: int
) -> None:
    hub = HubElmo(module=load_bilm(model.files))
    n_steps = max(map(len, batch)) + padding
    padded = [row + [""] * (n_steps - len(row)) for row in batch]
    lengths = [len(row) for row in batch]
    expected = expected_outputs(ElmoEmbedder(model=model.files), batch, n_steps, hub)
    assert_outputs(hub(padded, lengths), expected)


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        [""],
        [[]],
        [["", ""], ["", ""]],
    ],
)
def test_nothing_gives_outputs_without_tokens(hub: HubElmo, sentences: Any) -> None:
    outputs = hub(sentences)
    n_sentences = len(sentences)
    n_steps = len(sentences[0]) if sentences else 0
    assert outputs["elmo"].shape == (n_sentences, n_steps, 32)
    assert outputs["default"].shape == (n_sentences, 32)
    for values in outputs.values():
        assert not values.any()


def trained(module: HubElmo) -> set[str]:
    """Return the parameters that get a gradient from a loss on both kinds of output."""
    outputs = module(SENTENCES)
    loss = outputs["elmo"].square().sum() + outputs["default"].sum()
    if not loss.requires_grad:
        return set()
    loss.backward()
    names = set()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None and parameter.grad.any():
            names.add(name)
    return names


MIX = {
    "mix.gamma",
    "mix.scalar_parameters.0",
    "mix.scalar_parameters.1",
    "mix.scalar_parameters.2",
}


def test_hub_elmo_trains_the_parts_it_is_asked_to_train() -> None:
    assert trained(HubElmo(TINY)) == set()
    assert trained(HubElmo(TINY, trainable=True)) == MIX
    both = trained(HubElmo(TINY, trainable=True, requires_grad=True))
    alone = trained(HubElmo(TINY, requires_grad=True))
    assert both - alone == MIX
    parts = {name.rpartition("layers")[0] for name in alone}
    assert parts == {"", "bilm.forward_", "bilm.backward_"}
    assert any("token_encoder" in name for name in alone)


def test_the_state_of_a_module_is_saved_and_copied(hub: HubElmo) -> None:
    other = HubElmo(TINY)
    other.load_state_dict(hub.state_dict())
    for twin in (other, copy.deepcopy(hub), pickle.loads(pickle.dumps(hub))):
        assert torch.equal(twin(SENTENCES)["elmo"], hub(SENTENCES)["elmo"])


def test_outputs_are_on_the_device_of_the_module(
    hub: HubElmo, tiny: ElmoEmbedder, gpu: str
) -> None:
    outputs = copy.deepcopy(hub).to(gpu)(PADDED, LENGTHS)
    assert {values.device.type for values in outputs.values()} == {gpu}
    assert_outputs(outputs, expected_outputs(tiny, TOKENS, 8, hub))


def test_hub_elmo_takes_the_mapping_of_tf_hub(hub: HubElmo) -> None:
    expected = hub(PADDED, LENGTHS)
    mapping = {"tokens": np.array(FILLED), "sequence_len": np.array(LENGTHS)}
    named = hub(inputs=mapping, signature="tokens", as_dict=True)
    for outputs in (hub(mapping), named, hub(PADDED, LENGTHS, signature="tokens")):
        assert outputs.keys() == expected.keys()
        for name, values in expected.items():
            assert torch.equal(outputs[name], values)
    default = hub(SENTENCES)["default"]
    assert torch.equal(hub(SENTENCES, as_dict=False), default)


NO_STRING = "found a value of type list. Give sentences, or remove signature."
NO_LIST = "found the string 'A'. Give lists of tokens, or remove signature."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("The cat",),
            "inputs: expected a list, found the string 'The cat'. Put it into a list.",
        ),
        ((["The cat", None],), "inputs[1]: expected a string, found None"),
        (
            (["The cat", ["Yes"]],),
            "inputs[1]: expected a string, found a value of type list",
        ),
        (
            ({"tokens": PADDED},),
            "inputs: expected the keys tokens and sequence_len, found tokens",
        ),
        (
            (MAPPING, LENGTHS),
            "lengths: a mapping contains sequence_len instead. Remove lengths.",
        ),
        ((["The cat"], [2]), "lengths: sentences are split on spaces. Remove lengths."),
        ((PADDED, [6, 1]), "lengths: expected 4 numbers, one per sentence, found 2"),
        ((PADDED, [6, 9, 0, 2]), "lengths[1]: expected 0 to 8, found 9"),
        ((PADDED, [6, 1, -1, 2]), "lengths[2]: expected 0 to 8, found -1"),
        ((PADDED, [6, 2, 0, 2]), "inputs[1]: the token 1 of 2 is empty"),
        (([["a", None]],), "inputs[0][1]: expected a string, found None"),
        (([["a", "", "b", ""]],), "inputs[0]: the token 1 of 3 is empty"),
        (
            (PADDED, None, "default"),
            f"signature default: expected sentences, {NO_STRING}",
        ),
        (
            (MAPPING, None, "default"),
            f"signature default: expected sentences, {NO_STRING}",
        ),
        (
            (["A"], None, "tokens"),
            f"signature tokens: expected lists of tokens, {NO_LIST}",
        ),
        (
            (SENTENCES, None, "words"),
            "signature: expected default or tokens, found 'words'",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_an_error(
    hub: HubElmo, arguments: tuple[Any, ...], message: str
) -> None:
    options = {"signature": arguments[2]} if len(arguments) == 3 else {}
    with pytest.raises(InputError) as caught:
        hub(*arguments[:2], **options)
    assert str(caught.value) == message


def test_model_and_module_exclude_each_other(hub: HubElmo) -> None:
    with pytest.raises(SettingsError, match=r"^module: cannot be combined"):
        HubElmo(TINY, module=hub.bilm)
