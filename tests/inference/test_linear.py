"""Linear layers: by torch, in C, in int8."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.compiled import kernels, linear
from elmo_cli.compiled.linear import CompiledLinear, make_linear, product_kernel
from elmo_cli.inference.int8 import _MAX_ROWS, Int8Linear, _pad_rows
from tests.support.cell_formulas import PROCESSORS, processor
from tests.support.processors import needs_int8
from tests.support.strategies import random_tensor


class Product(NamedTuple):
    """Rows for a linear layer, its weight, and its bias."""

    inputs: Tensor
    weight: Tensor
    bias: Tensor | None


class Kernel(NamedTuple):
    """Type of the weights, processor, and whether it has AMX."""

    dtype: torch.dtype
    processor: str
    with_tiles: bool


KERNELS = [Kernel(torch.float32, name, with_tiles=False) for name in PROCESSORS]
if product_kernel(torch.bfloat16):
    KERNELS.append(Kernel(torch.bfloat16, "AVX512", with_tiles=False))
if kernels.has_tiles():
    KERNELS.append(Kernel(torch.bfloat16, "AVX512", with_tiles=True))


@st.composite
def products(
    draw: st.DrawFn,
    n_rows: st.SearchStrategy[int],
    n_inputs: st.SearchStrategy[int],
) -> Product:
    """Draw layers and inputs of random values, with a bias or without."""
    n = draw(n_inputs)
    seed = draw(st.integers(0, 99))
    n_outputs = draw(st.integers(1, 150))
    has_bias = draw(st.booleans())
    return Product(
        inputs=random_tensor(draw(n_rows), n, seed=seed + 2),
        weight=random_tensor(n_outputs, n, seed=seed),
        bias=random_tensor(n_outputs, seed=seed + 1) if has_bias else None,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    product=products(
        st.integers(0, 20) | st.integers(250, 600),
        st.integers(1, 40) | st.integers(500, 2200),
    )
)
def test_a_layer_in_c_equals_float64_and_keeps_its_weights(
    kernel: Kernel, product: Product
) -> None:
    weight = product.weight.to(kernel.dtype)
    inputs = product.inputs.to(kernel.dtype)
    inputs = inputs.repeat(1, 2)[:, : weight.shape[1]]  # They have a stride.
    bias = None if product.bias is None else product.bias.to(kernel.dtype)
    middle = len(inputs) // 2
    rows = slice(middle, middle + 4)
    with processor(kernel.processor), pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "has_tiles", lambda: kernel.with_tiles)
        multiply = CompiledLinear(weight, bias)
        as_in_files = CompiledLinear(weight.t().contiguous().t(), bias)
        output = multiply(inputs)
        alone = multiply(inputs[rows])
        unpacked, unpacked_bias = multiply.unpack()

    assert type(make_linear(weight)) is CompiledLinear
    assert torch.equal(unpacked, weight)
    assert torch.equal(as_in_files.weight, multiply.weight)
    if bias is None:
        assert unpacked_bias is None
    else:
        assert unpacked_bias is not None
        assert torch.equal(unpacked_bias, bias)
    assert output.dtype == kernel.dtype
    added = torch.zeros(1) if bias is None else bias
    expected = inputs.double() @ weight.double().t() + added
    sizes = inputs.double().abs() @ weight.double().abs().t()
    sizes += added.abs()
    epsilon = torch.finfo(kernel.dtype).eps
    rounding = expected.abs() * epsilon / 2
    errors = (output - expected).abs()
    assert (errors <= 1e-6 * sizes + rounding).all()
    # A row has the same bits among other rows and alone.
    assert torch.equal(alone, output[rows])


@needs_int8
def test_onednn_gets_few_different_numbers_of_rows() -> None:
    """Check padded rows: oneDNN stores a compiled product for each number of rows."""
    padded = set()
    for n in range(1, _MAX_ROWS + 1):
        rows = _pad_rows(torch.zeros(n, 4))
        padded.add(len(rows))
    few = {*range(1, 9)}
    eighths = {*range(16, 129, 8)}
    sixteenths = {*range(144, 257, 16)}
    assert padded == few | eighths | sixteenths


def in_whole_steps(values: Tensor) -> Tensor:
    """Return rows whose values are whole steps of a 127th of their largest value."""
    steps = (40 * values).round().clamp(-126, 126)
    steps[:, 0] = 127
    steps[len(steps) // 2] = 0
    exponents = torch.arange(len(steps)) % 16 - 8
    return torch.ldexp(steps, exponents[:, None])


@needs_int8
@given(product=products(st.integers(1, 2 * _MAX_ROWS), st.integers(1, 70)))
def test_int8_multiplies_whole_steps_exactly(product: Product) -> None:
    inputs = in_whole_steps(product.inputs)
    weight = in_whole_steps(product.weight)
    expected = inputs.double() @ weight.double().t()
    if product.bias is not None:
        expected += product.bias
    output = Int8Linear(weight, product.bias)(inputs)
    assert output.dtype == torch.float32
    assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@needs_int8
def test_int8_rounds_almost_all_values_to_the_nearest_step() -> None:
    weight = random_tensor(300, 200)
    inputs = random_tensor(100, 200, seed=1)
    rounded_inputs = round_to_steps(inputs.double())
    rounded_weight = round_to_steps(weight.double())
    expected = rounded_inputs @ rounded_weight.t()
    output = Int8Linear(weight)(inputs)
    same = np.isclose(output, expected, rtol=1e-4, atol=1e-4)
    assert same.mean() > 0.99


def round_to_steps(values: Tensor) -> Tensor:
    """Round each value to a whole number of 127ths of the largest value of its row."""
    step = values.abs().amax(dim=1, keepdim=True) / 127
    return (values / step).round() * step


@needs_int8
@pytest.mark.parametrize("sign", [1, -1])
def test_the_sums_of_int8_do_not_overflow(sign: int) -> None:
    multiply = Int8Linear(sign * torch.ones(16, 4096))
    sums = multiply(torch.ones(3, 4096))
    expected = torch.full((3, 16), sign * 4096.0)
    assert_allclose(sums, expected, rtol=1e-6)
