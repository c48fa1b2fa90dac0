"""Weighted sums of layers."""

import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor
from torch.func import functional_call

from elmo_cli.errors import ElmoError
from elmo_cli.model.scalar_mix import ScalarMix


def test_layer_norm_of_nothing_but_padding_is_finite() -> None:
    mixed = ScalarMix(1, do_layer_norm=True)([torch.zeros(2, 3, 4)], torch.zeros(2, 3))
    assert mixed.isfinite().all()


def test_layer_norm_holds_in_half_precision() -> None:
    layer = 200 * torch.randn(4, 50, 16)
    mix = ScalarMix(1, do_layer_norm=True)
    assert_allclose(mix([layer.half()]).detach(), mix([layer]).detach(), atol=2e-3)


def test_wrong_numbers_of_layers_are_refused() -> None:
    with pytest.raises(ElmoError, match=r"^expected 3 mix parameters, found 2$"):
        ScalarMix(3, initial_scalar_parameters=[0.0, 1.0])
    with pytest.raises(ElmoError, match=r"^expected 3 layers to mix, found 2$"):
        ScalarMix(3)([torch.zeros(1, 1, 1)] * 2)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_gradients_of_a_mix_are_those_of_finite_differences(layer_norm: bool) -> None:
    torch.manual_seed(0)
    mix = ScalarMix(2, layer_norm, [0.3, -0.8]).double()
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    names = [name for name, _ in mix.named_parameters()]

    def mixed(layers: Tensor, *values: Tensor) -> Tensor:
        parameters = dict(zip(names, values, strict=True))
        result: Tensor = functional_call(mix, parameters, (layers.unbind(), mask))
        return result

    layers = torch.randn(2, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    values = [parameter.detach().requires_grad_() for parameter in mix.parameters()]
    assert torch.autograd.gradcheck(mixed, (layers, *values))
