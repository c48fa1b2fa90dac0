import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.inference.selection import LayerChoice, mixed_layers, parse_layers
from elmo_cli.model.scalar_mix import ScalarMix


@pytest.fixture
def layers() -> Tensor:
    return torch.arange(24.0).reshape(3, 4, 2)


def test_all_takes_every_layer(layers: Tensor) -> None:
    assert torch.equal(parse_layers("all", 3).apply(layers), layers)


def test_top_takes_the_last_layer(layers: Tensor) -> None:
    assert torch.equal(parse_layers("top", 3).apply(layers), layers[2])


def test_average_and_sum_mix_all_layers(layers: Tensor) -> None:
    assert_allclose(parse_layers("average", 3).apply(layers), layers[1])
    assert_allclose(parse_layers("sum", 3).apply(layers), 3 * layers[1])


@pytest.mark.parametrize(("text", "indices"), [("0,2", [0, 2]), ("2, 0", [2, 0]), ("1,1", [1, 1])])
def test_numbers_take_layers_in_their_order(layers: Tensor, text: str, indices: list[int]) -> None:
    choice = parse_layers(text, 3)
    assert torch.equal(choice.apply(layers), torch.stack([layers[i] for i in indices]))
    assert str(choice) == text.replace(" ", "")


def test_one_number_takes_one_layer_without_its_axis(layers: Tensor) -> None:
    assert torch.equal(parse_layers("1", 3).apply(layers), layers[1])


def test_word_emb_takes_the_first_half_of_the_token_layer(layers: Tensor) -> None:
    assert torch.equal(parse_layers("word_emb", 3).apply(layers), layers[0, :, :1])


@pytest.mark.parametrize("index", [1, 2])
def test_an_lstm_is_taken_by_its_name(layers: Tensor, index: int) -> None:
    choice = parse_layers(f"lstm{index}", 3)
    assert torch.equal(choice.apply(layers), layers[index])
    assert str(choice) == f"lstm{index}"


def test_a_mix_weighs_all_layers_by_its_softmax(layers: Tensor) -> None:
    parameters, gamma = np.array([0.2, -0.3, 0.5]), 1.2
    weights = np.exp(parameters) / np.exp(parameters).sum()
    expected = gamma * np.einsum("l,lnw->nw", weights, layers.numpy())
    choice = mixed_layers([0.2, -0.3, 0.5], 1.2, 3)
    assert_allclose(choice.apply(layers), expected, rtol=1e-6)
    assert str(choice) == "mix"


def test_a_mix_is_the_module_that_learned_it(layers: Tensor) -> None:
    module = ScalarMix(3, initial_scalar_parameters=[3.0, 0.1, -2.0])
    with torch.no_grad():
        module.gamma.fill_(0.7)
        expected = module(layers.unbind())
    parameters = [parameter.item() for parameter in module.scalar_parameters]
    found = mixed_layers(parameters, module.gamma.item(), 3).apply(layers)
    assert_allclose(found, expected, rtol=1e-6)


def test_the_logarithms_of_weights_mix_by_these_weights(layers: Tensor) -> None:
    found = mixed_layers(np.log([0.2, 0.3, 0.5]).tolist(), 1, 3).apply(layers)
    assert_allclose(found, 0.2 * layers[0] + 0.3 * layers[1] + 0.5 * layers[2], rtol=1e-6)


@pytest.mark.parametrize("mix", [[], [1.0, 2.0], [1.0] * 4])
def test_a_mix_has_a_number_a_layer(mix: list[float]) -> None:
    with pytest.raises(InputError) as caught:
        mixed_layers(mix, 1, 3)
    assert str(caught.value) == (
        f"mix: expected 3 numbers, one a layer from the token layer up, found {len(mix)}"
    )


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), float("-inf"), 1e39])
def test_the_numbers_of_a_mix_are_finite(strange: float) -> None:
    with pytest.raises(InputError, match=r"^mix: expected finite float32 numbers, found "):
        mixed_layers([0.0, strange, 0.0], 1, 3)
    with pytest.raises(InputError, match=r"^gamma: expected finite float32 numbers, found "):
        mixed_layers([0.0, 0.0, 0.0], strange, 3)


CHOICES = [
    *(parse_layers(name, 3) for name in ("all", "top", "average", "sum", "0,2", "1")),
    *(parse_layers(name, 3) for name in ("word_emb", "lstm2")),
    mixed_layers([0, 1, 0], 2, 3),
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_sentence_without_tokens_keeps_the_shape_of_its_choice(
    layers: Tensor, choice: LayerChoice
) -> None:
    full, empty = choice.apply(layers), choice.apply(layers[:, :0])
    assert empty.shape == (*full.shape[:-2], 0, full.shape[-1])


@pytest.mark.parametrize(
    "text", ["", "both", "3", "-1", "0,", "0;1", "0,3", "1.0", "²", "ALL", "lstm0", "lstm3", "mix"]
)
def test_other_choices_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_layers(text, 3)
    assert str(caught.value) == (
        f"layers {text!r}: expected all, top, average, sum, word_emb, lstm1, lstm2, or numbers "
        "from 0 to 2 with commas between"
    )


def test_a_choice_shows_as_it_is_spelled() -> None:
    assert str(LayerChoice("average")) == "average"
