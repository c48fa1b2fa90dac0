import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.inference.selection import LayerChoice, mixed_layers, parse_layers


@pytest.fixture
def layers() -> Tensor:
    return torch.arange(24.0).reshape(3, 4, 2)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("all", [0, 1, 2]),
        ("top", 2),
        ("0,2", [0, 2]),
        ("2, 0", [2, 0]),
        ("1,1", [1, 1]),
        ("1", 1),
        ("lstm1", 1),
        ("lstm2", 2),
    ],
)
def test_a_choice_takes_layers_in_its_order_and_a_single_one_without_its_axis(
    layers: Tensor, text: str, taken: int | list[int]
) -> None:
    choice = parse_layers(text, 3)
    assert torch.equal(choice.apply(layers), layers[taken])
    assert str(choice) == text.replace(" ", "")


def test_a_mix_weighs_all_layers_by_its_softmax(layers: Tensor) -> None:
    parameters, gamma = np.array([0.2, -0.3, 0.5]), 1.2
    weights = np.exp(parameters) / np.exp(parameters).sum()
    expected = gamma * np.einsum("l,lnw->nw", weights, layers.numpy())
    choice = mixed_layers([0.2, -0.3, 0.5], 1.2, 3)
    assert_allclose(choice.apply(layers), expected, rtol=1e-6)
    assert str(choice) == "mix"


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
