"""Linear layers of whole numbers in C, against a model of their rounding in NumPy."""

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.compiled.integer_linear import LARGEST, round_to_integers
from tests.support.cell_formulas import processor
from tests.support.processors import processors_with
from tests.support.strategies import random_tensor, seeds
from tests.support.whole_numbers import round_rows, round_weights

Array = NDArray[Any]


class Kernel(NamedTuple):
    """Type of the whole numbers, and a processor that has the product."""

    dtype: torch.dtype
    processor: str


KERNELS = [
    Kernel(dtype, name)
    for dtype in (torch.int8, torch.int16)
    for name in processors_with(dtype)
]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def multiply(
    kernel: Kernel, inputs: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    with processor(kernel.processor):
        return round_to_integers(weight, bias, kernel.dtype)(inputs)


def model(inputs: Array, weight: Array, bias: Array | None, most: int) -> Array:
    """Multiply rounded rows and weights with exact sums: float64, (N, out)."""
    whole_inputs, row_scales = round_rows(inputs, most)
    whole_weight, scales = round_weights(weight, most)
    sums = whole_inputs @ whole_weight.T
    scaled: Array = sums * row_scales.astype(float) * scales.astype(float)
    return scaled if bias is None else scaled + bias


@each_kernel
@given(
    n=st.integers(0, 20) | st.integers(250, 600),
    n_inputs=st.integers(1, 40) | st.integers(500, 2200),
    n_outputs=st.integers(1, 150),
    exponent=st.sampled_from([-90, -3, 0, 60]),
    has_bias=st.booleans(),
    seed=seeds,
)
def test_a_layer_multiplies_rounded_rows(
    kernel: Kernel,
    n: int,
    n_inputs: int,
    n_outputs: int,
    exponent: int,
    has_bias: bool,
    seed: int,
) -> None:
    inputs = random_tensor(n, n_inputs, seed=seed)
    # The size of each row differs.
    inputs *= 2.0 ** (exponent + torch.arange(n)[:, None] % 5)
    inputs[1:2] = 0
    weight = random_tensor(n_outputs, n_inputs, seed=seed + 1)
    weight[1:2] = 0
    bias = random_tensor(n_outputs, seed=seed + 2) if has_bias else None
    output = multiply(kernel, inputs, weight, bias)
    assert output.dtype == torch.float32
    if n == 0:
        assert output.shape == (0, n_outputs)
        return
    added = None if bias is None else bias.numpy()
    expected = model(inputs.numpy(), weight.numpy(), added, LARGEST[kernel.dtype])
    # Only scaling and partial sums of int16 are rounded.
    sizes = model(abs(inputs).numpy(), abs(weight).numpy(), None, LARGEST[kernel.dtype])
    if bias is not None:
        sizes += abs(bias).numpy()
    assert (np.abs(output.numpy() - expected) <= 4e-7 * sizes).all()


@each_kernel
def test_whole_numbers_are_multiplied_exactly(kernel: Kernel) -> None:
    most = LARGEST[kernel.dtype]
    inputs = (most * random_tensor(9, 96)).round().clamp(-most, most)
    weight = (most * random_tensor(70, 96, seed=1)).round().clamp(-most, most)
    inputs[:, 0] = most
    weight[:, 0] = -most
    expected = (inputs.double() @ weight.double().t()).float()
    assert torch.equal(multiply(kernel, inputs, weight), expected)


@each_kernel
@pytest.mark.parametrize("input_sign", [-1.0, 1.0])
@pytest.mark.parametrize("weight_sign", [-1.0, 1.0])
def test_the_largest_sums_do_not_overflow(
    kernel: Kernel, input_sign: float, weight_sign: float
) -> None:
    inputs = torch.full((7, 8192), input_sign)
    weight = torch.full((65, 8192), weight_sign)
    expected = torch.full((7, 65), 8192 * input_sign * weight_sign)
    assert_allclose(multiply(kernel, inputs, weight), expected, rtol=1e-6)


@each_kernel
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_value_that_is_no_number_is_not_finite(
    kernel: Kernel, value: float
) -> None:
    inputs = random_tensor(8, 37)
    weight = random_tensor(20, 37, seed=1)
    changed = inputs.clone()
    for row, column in ((1, 0), (4, 36), (6, 20)):
        changed[row, column] = value
    output = multiply(kernel, changed, weight)
    is_changed = torch.zeros(8, dtype=torch.bool)
    is_changed[[1, 4, 6]] = True
    assert not output[is_changed].isfinite().any()
    expected = multiply(kernel, inputs, weight)
    assert torch.equal(output[~is_changed], expected[~is_changed])


@each_kernel
def test_the_bits_of_a_row_depend_on_no_other_row_and_no_thread(kernel: Kernel) -> None:
    inputs = random_tensor(530, 1001)
    weight = random_tensor(200, 1001, seed=1)
    together = multiply(kernel, inputs, weight)
    torch.set_num_threads(3)
    try:
        for rows in (slice(0, 1), slice(5, 12), slice(250, 530)):
            alone = multiply(kernel, inputs[rows], weight)
            assert torch.equal(alone, together[rows])
    finally:
        torch.set_num_threads(1)


@each_kernel
def test_processors_compute_the_same_bits(kernel: Kernel) -> None:
    inputs = random_tensor(40, 1300)
    weight = random_tensor(100, 1300, seed=1)
    first = KERNELS[0]._replace(dtype=kernel.dtype)
    for bias in (None, random_tensor(100, seed=2)):
        expected = multiply(first, inputs, weight, bias)
        assert torch.equal(multiply(kernel, inputs, weight, bias), expected)


@each_kernel
def test_a_layer_keeps_its_weights_and_its_copies_compute_the_same(
    kernel: Kernel,
) -> None:
    inputs = random_tensor(4, 70)
    weight = random_tensor(100, 70, seed=1)
    bias = random_tensor(100, seed=2)
    with processor(kernel.processor):
        layer = round_to_integers(weight, bias, kernel.dtype)
        expected = layer(inputs)
        rounded, unpacked_bias = layer.unpack()
        copied = deepcopy(layer)(inputs)
    whole, _ = round_weights(weight.numpy(), LARGEST[kernel.dtype])
    assert rounded.dtype == kernel.dtype
    assert (rounded.numpy() == whole).all()
    assert unpacked_bias is not None
    assert torch.equal(unpacked_bias, bias)
    assert torch.equal(copied, expected)
