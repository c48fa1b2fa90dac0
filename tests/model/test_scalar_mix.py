"""Weighted sums of layers."""

import pytest
import torch
from numpy.testing import assert_allclose

from elmo_cli.errors import ElmoError
from elmo_cli.model.bilm import ScalarMix


def test_layer_norm_of_padding_alone_is_finite() -> None:
    mixed = ScalarMix(1, do_layer_norm=True)([torch.zeros(2, 3, 4)], torch.zeros(2, 3))
    assert mixed.isfinite().all()


def test_layer_norm_works_in_half_precision() -> None:
    layer = 200 * torch.randn(4, 50, 16)
    mix = ScalarMix(1, do_layer_norm=True)
    assert_allclose(mix([layer.half()]).detach(), mix([layer]).detach(), atol=2e-3)


def test_wrong_numbers_of_layers_are_refused() -> None:
    with pytest.raises(ElmoError, match=r"^mix parameters: expected 3, found 2$"):
        ScalarMix(3, initial_scalar_parameters=[0.0, 1.0])
    with pytest.raises(ElmoError, match=r"^layers to mix: expected 3, found 2$"):
        ScalarMix(3)([torch.zeros(1, 1, 1)] * 2)
