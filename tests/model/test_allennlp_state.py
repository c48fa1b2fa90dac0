"""State dicts of AllenNLP's `Elmo`: made from a weights file as AllenNLP read it."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn

from elmo_cli import Elmo, batch_to_ids
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support.strategies import make_model, small_architecture

IDS = batch_to_ids([["the", "cat"], ["a"]])
MIX = {
    "scalar_mix_0.gamma": 1.5,
    "scalar_mix_0.scalar_parameters.0": 0.25,
    "scalar_mix_0.scalar_parameters.1": -0.5,
    "scalar_mix_0.scalar_parameters.2": 0.75,
}


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """Return a model, from which an old program started."""
    folder = tmp_path / "original"
    folder.mkdir()
    return make_model(small_architecture(), 1, folder)


def make_elmo(files: ModelFiles) -> Elmo:
    return Elmo(files.options, files.weights, dropout=0.0)


def old_state(weights: Path) -> dict[str, Tensor]:
    """Return the state dict of AllenNLP 0.9.0's `Elmo` for a weights file."""
    arrays = {}
    with h5py.File(weights) as file:

        def read(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                arrays[name] = item[()]

        file.visititems(read)
    table = arrays["char_embed"]
    encoder = "_elmo_lstm._token_embedder."
    state = {
        f"{encoder}_char_embedding_weights": np.pad(table, [(1, 0), (0, 0)]),
        f"{encoder}_projection.weight": arrays["CNN_proj/W_proj"].T,
        f"{encoder}_projection.bias": arrays["CNN_proj/b_proj"],
    }
    n_filters = sum(name.startswith("CNN/W_cnn_") for name in arrays)
    for i in range(n_filters):
        convolution = arrays[f"CNN/W_cnn_{i}"][0]  # (width, C, count)
        state[f"{encoder}char_conv_{i}.weight"] = convolution.transpose(2, 1, 0)
        state[f"{encoder}char_conv_{i}.bias"] = arrays[f"CNN/b_cnn_{i}"]
    n_highway = sum(name.endswith("/W_carry") for name in arrays)
    for k in range(n_highway):
        layer = f"{encoder}_highways._layers.{k}"
        high = f"CNN_high_{k}"
        state[f"{layer}.weight"] = np.concatenate(
            [arrays[f"{high}/W_transform"].T, -arrays[f"{high}/W_carry"].T]
        )
        state[f"{layer}.bias"] = np.concatenate(
            [arrays[f"{high}/b_transform"], -arrays[f"{high}/b_carry"]]
        )
    for d, direction in enumerate(["forward", "backward"]):
        n_layers = sum(
            name.startswith(f"RNN_{d}/") and name.endswith("/W_0") for name in arrays
        )
        for layer_number in range(n_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer_number}/LSTMCell"
            lstm = f"_elmo_lstm._elmo_lstm.{direction}_layer_{layer_number}"
            projection = arrays[f"{cell}/W_P_0"]  # (D, P)
            size = projection.shape[1]
            weight = reorder_gates(arrays[f"{cell}/W_0"].T)
            bias = reorder_gates(arrays[f"{cell}/B"])
            dim = len(bias) // 4
            bias[dim : 2 * dim] += 1  # of the forget gate
            state[f"{lstm}.input_linearity.weight"] = weight[:, :size]
            state[f"{lstm}.state_linearity.weight"] = weight[:, size:]
            state[f"{lstm}.state_linearity.bias"] = bias
            state[f"{lstm}.state_projection.weight"] = projection.T
    tensors = {}
    for name, array in state.items():
        tensors[name] = torch.tensor(np.ascontiguousarray(array))
    for name, number in MIX.items():
        tensors[name] = torch.tensor([number])
    return tensors


def reorder_gates(gates: np.ndarray) -> np.ndarray:
    """Return gates i, j, f, o of TensorFlow in AllenNLP's order i, f, j, o."""
    i, j, f, o = np.split(gates, 4)
    return np.concatenate([i, f, j, o])


def assert_has_mix_and_bilm(elmo: Elmo, files: ModelFiles) -> None:
    """Assert the values of an `Elmo` that has loaded the old state dict."""
    state = elmo.state_dict()
    for name, number in MIX.items():
        assert state[name].item() == number
    expected = make_elmo(files)
    expected.load_state_dict({name: state[name] for name in MIX}, strict=False)
    for values, others in zip(
        elmo(IDS)["elmo_representations"],
        expected(IDS)["elmo_representations"],
        strict=True,
    ):
        assert_allclose(values.detach(), others.detach(), atol=1e-6)


@pytest.mark.parametrize("strict", [True, False])
def test_a_fine_tuned_bilm_is_loaded(
    files: ModelFiles, tmp_path: Path, strict: bool
) -> None:
    fine_tuned = make_model(small_architecture(), 2, tmp_path)
    elmo = make_elmo(files)
    names = elmo.state_dict().keys()
    result = elmo.load_state_dict(old_state(fine_tuned.weights), strict=strict)
    assert result.missing_keys == []
    assert result.unexpected_keys == []
    assert_has_mix_and_bilm(elmo, fine_tuned)
    assert elmo.state_dict().keys() == names


def test_an_elmo_with_the_old_name_in_a_model_is_loaded(
    files: ModelFiles, tmp_path: Path
) -> None:
    fine_tuned = make_model(small_architecture(), 2, tmp_path)
    model = nn.ModuleDict({"embedder": make_elmo(files), "output": nn.Linear(3, 2)})
    state = dict(model["output"].state_dict(prefix="output."))
    for name, values in old_state(fine_tuned.weights).items():
        state[f"embedder.{name}"] = values
    before = dict(state)
    model.load_state_dict(state)
    elmo = model["embedder"]
    assert isinstance(elmo, Elmo)
    assert_has_mix_and_bilm(elmo, fine_tuned)
    assert state.keys() == before.keys()  # The caller's dictionary stays as it is.


def test_words_and_boundaries_of_the_old_state_are_not_needed(
    files: ModelFiles,
) -> None:
    state = old_state(files.weights)
    encoder = "_elmo_lstm._token_embedder."
    state["_elmo_lstm._word_embedding.weight"] = torch.zeros(5, 7)
    state[f"{encoder}_beginning_of_sentence_characters"] = torch.zeros(50)
    state[f"{encoder}_end_of_sentence_characters"] = torch.zeros(50)
    elmo = make_elmo(files)
    elmo.load_state_dict(state)
    assert_has_mix_and_bilm(elmo, files)


@pytest.mark.parametrize("strict", [True, False])
def test_a_bilm_that_does_not_fit_is_an_error(files: ModelFiles, strict: bool) -> None:
    elmo = make_elmo(files)
    state = old_state(files.weights)
    lstm = "_elmo_lstm._elmo_lstm.forward_layer_1"
    del state[f"{lstm}.state_linearity.bias"]
    with pytest.raises(RuntimeError) as caught:
        elmo.load_state_dict(state, strict=strict)
    message = str(caught.value)
    assert "does not have _elmo_lstm.forward_layer_1.input_linearity.weight" in message
    assert "also needs forward_layers.1.gates.bias, forward_layers.1" in message

    state = old_state(files.weights)
    encoder = "_elmo_lstm._token_embedder"
    state[f"{encoder}.char_conv_9.bias"] = torch.zeros(1)
    with pytest.raises(RuntimeError, match=r"have token_encoder\.convolutions\.9\.bia"):
        elmo.load_state_dict(state, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_the_state_of_a_whole_old_model_says_where_its_elmo_is(
    files: ModelFiles, strict: bool
) -> None:
    elmo = make_elmo(files)
    name = "text_field_embedder.token_embedder_elmo._elmo"
    state = {}
    for key, values in old_state(files.weights).items():
        state[f"{name}.{key}"] = values
    message = rf"AllenNLP's Elmo is a part of this state dict, '{name}'\. Load the val"
    with pytest.raises(RuntimeError, match=message):
        elmo.load_state_dict(state, strict=strict)
