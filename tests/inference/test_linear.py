"""Linear layers: by torch, in C, in int8."""

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

BFLOAT16_WAYS = [False] * bool(product_kernel(torch.bfloat16)) + [
    True
] * kernels.has_tiles()
"""Without AMX and with it, where the processor has products of bfloat16."""
Product = tuple[Tensor, Tensor, Tensor | None]
"""Rows for a linear layer, its weight, and its bias."""


@st.composite
def products(
    draw: st.DrawFn, n_rows: st.SearchStrategy[int], n_inputs: st.SearchStrategy[int]
) -> Product:
    """Draw layers and inputs of random values, with a bias or without."""
    n = draw(n_inputs)
    seed = draw(st.integers(0, 99))
    n_outputs = draw(st.integers(1, 150))
    bias = random_tensor(n_outputs, seed=seed + 1) if draw(st.booleans()) else None
    inputs = random_tensor(draw(n_rows), n, seed=seed + 2)
    return inputs, random_tensor(n_outputs, n, seed=seed), bias


@pytest.mark.parametrize(
    ("dtype", "name", "with_tiles"),
    [
        *((torch.float32, name, False) for name in PROCESSORS),
        *((torch.bfloat16, "AVX512", with_tiles) for with_tiles in BFLOAT16_WAYS),
    ],
)
@given(
    product=products(
        st.integers(0, 20) | st.integers(250, 600),
        st.integers(1, 40) | st.integers(500, 2200),
    )
)
def test_a_layer_in_c_equals_float64_and_keeps_its_weights(
    dtype: torch.dtype, name: str, with_tiles: bool, product: Product
) -> None:
    inputs, weight = (values.to(dtype) for values in product[:2])
    inputs = inputs.repeat(1, 2)[:, : weight.shape[1]]  # They have a stride.
    given_bias = None if product[2] is None else product[2].to(dtype)
    bias = torch.zeros(1) if given_bias is None else given_bias
    rows = slice(len(inputs) // 2, len(inputs) // 2 + 4)
    with processor(name), pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "has_tiles", lambda: with_tiles)
        multiply = CompiledLinear(weight, given_bias)
        output = multiply(inputs)
        alone = multiply(inputs[rows])
        unpacked, unpacked_bias = multiply.unpack()
    assert type(make_linear(weight)) is CompiledLinear
    assert torch.equal(unpacked, weight)
    assert (unpacked_bias is None) == (given_bias is None)
    assert unpacked_bias is None or torch.equal(unpacked_bias, bias)
    assert output.dtype == dtype
    expected = inputs.double() @ weight.double().t() + bias
    sizes = inputs.double().abs() @ weight.double().abs().t() + bias.abs()
    rounding = expected.abs() * torch.finfo(dtype).eps / 2
    assert ((output - expected).abs() <= 1e-6 * sizes + rounding).all()
    # A row has the same bits among other rows and alone.
    assert torch.equal(alone, output[rows])


@needs_int8
def test_onednn_gets_few_different_numbers_of_rows() -> None:
    """Check padded rows, because oneDNN stores a compiled product for each number of rows."""
    padded = {len(_pad_rows(torch.zeros(n, 4))) for n in range(1, _MAX_ROWS + 1)}
    assert padded == {*range(1, 9), *range(16, 129, 8), *range(144, 257, 16)}


def in_whole_steps(values: Tensor) -> Tensor:
    """Return rows whose values are whole steps of a 127th of their largest value."""
    steps = (40 * values).round().clamp(-126, 126)
    steps[:, 0] = 127
    steps[len(steps) // 2] = 0
    return torch.ldexp(steps, torch.arange(len(steps))[:, None] % 16 - 8)


@needs_int8
@given(product=products(st.integers(1, 2 * _MAX_ROWS), st.integers(1, 70)))
def test_int8_multiplies_whole_steps_exactly(product: Product) -> None:
    inputs, weight = map(in_whole_steps, product[:2])
    bias = product[2]
    expected = inputs.double() @ weight.double().t() + (0 if bias is None else bias)
    output = Int8Linear(weight, bias)(inputs)
    assert output.dtype == torch.float32
    assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@needs_int8
def test_int8_rounds_almost_all_values_to_the_nearest_step() -> None:
    weight = random_tensor(300, 200)
    inputs = random_tensor(100, 200, seed=1)
    rounded = []
    scales = []
    for values in (inputs.double(), weight.double()):
        scales.append(values.abs().amax(dim=1, keepdim=True) / 127)
        rounded.append((values / scales[-1]).round())
    expected = rounded[0] @ rounded[1].t() * scales[0] * scales[1].t()
    same = np.isclose(Int8Linear(weight)(inputs), expected, rtol=1e-4, atol=1e-4)
    assert same.mean() > 0.99


@needs_int8
@pytest.mark.parametrize("sign", [1, -1])
def test_the_sums_of_int8_do_not_overflow(sign: int) -> None:
    sums = Int8Linear(sign * torch.ones(16, 4096))(torch.ones(3, 4096))
    assert_allclose(sums, torch.full((3, 16), sign * 4096.0), rtol=1e-6)
