import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.layers import LayerChoice, parse_layers


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


@pytest.mark.parametrize("name", ["all", "top", "average", "sum", "0,2", "1"])
def test_a_sentence_without_tokens_keeps_the_shape_of_its_choice(layers: Tensor, name: str) -> None:
    choice = parse_layers(name, 3)
    full, empty = choice.apply(layers), choice.apply(layers[:, :0])
    assert empty.shape == (*full.shape[:-2], 0, 2)


@pytest.mark.parametrize("text", ["", "both", "3", "-1", "0,", "0;1", "0,3", "1.0", "²", "ALL"])
def test_other_choices_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_layers(text, 3)
    assert str(caught.value) == (
        f"layers {text!r}: expected all, top, average, sum, or numbers from 0 to 2 with commas "
        "between"
    )


def test_a_choice_shows_as_it_is_spelled() -> None:
    assert str(LayerChoice("average")) == "average"
