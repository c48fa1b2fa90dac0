"""Precisions: what they mean, what they need, and the product in int8."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import needs_int8
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from strategies import random_tensor
from torch import Tensor

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.int8_product import Int8Product
from elmo_cli.inference.linear import PRODUCT_ROWS
from elmo_cli.inference.precision import Precision, ProductLinear, compute_types
from elmo_cli.model.token_encoder import Highway

CPU = torch.device("cpu")


def rounded_to_int8(rows: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows in steps of a 127th of their largest value, and those steps."""
    values = rows.numpy().astype(float)
    scales = np.abs(values).max(axis=1, keepdims=True) / 127
    return np.rint(values / np.where(scales, scales, 1)).astype(np.int64), scales


def product_of_rounded(inputs: Tensor, weight: Tensor) -> NDArray[np.float64]:
    left, left_scales = rounded_to_int8(inputs)
    right, right_scales = rounded_to_int8(weight)
    exact: NDArray[np.float64] = (left @ right.T) * left_scales * right_scales.T
    return exact


@needs_int8
@given(
    n_rows=st.integers(1, 2 * PRODUCT_ROWS),
    n_inputs=st.integers(1, 70),
    n_outputs=st.integers(1, 70),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_int8_multiplies_rounded_values(
    n_rows: int, n_inputs: int, n_outputs: int, with_bias: bool, seed: int
) -> None:
    weight, inputs = random_tensor(n_outputs, n_inputs, seed=seed), random_tensor(n_rows, n_inputs)
    bias = random_tensor(n_outputs, seed=seed + 1) if with_bias else None
    inputs *= torch.logspace(-3, 2, n_rows)[:, None]  # each has a scale of its own
    expected = product_of_rounded(inputs, weight) + (0 if bias is None else bias.numpy())
    # Where a value lies between two steps, float32 may round it to the other one.
    _, scales = rounded_to_int8(inputs)
    step = 1.01 * scales * np.abs(weight.numpy()).max(axis=1)
    multiply, values = Int8Product(weight, bias), random_tensor(n_rows, n_outputs, seed=seed + 2)
    found = multiply(inputs)
    assert found.dtype == torch.float32
    assert (np.abs(found.numpy() - expected) <= step + 1e-5 * np.abs(expected)).all()
    without_bias = found if bias is None else found - bias
    for first in (values[:1], values[:PRODUCT_ROWS]):
        summed = multiply.unscaled(inputs[: len(first)]).added_to(first)
        assert_allclose(summed, first + without_bias[: len(first)], rtol=1e-5, atol=1e-4)


@needs_int8
def test_int8_rounds_almost_all_values_alike() -> None:
    weight, inputs = random_tensor(300, 200), random_tensor(100, 200, seed=1)
    expected = product_of_rounded(inputs, weight)
    same = np.isclose(Int8Product(weight)(inputs), expected, rtol=1e-4, atol=1e-4)
    assert same.mean() > 0.99


@needs_int8
def test_the_sums_of_int8_do_not_overflow() -> None:
    weight, inputs = torch.ones(16, 4096), torch.ones(3, 4096)
    assert_allclose(Int8Product(weight)(inputs), torch.full((3, 16), 4096.0), rtol=1e-6)
    assert_allclose(Int8Product(-weight)(inputs), torch.full((3, 16), -4096.0), rtol=1e-6)


@needs_int8
def test_int8_takes_weights_that_lie_apart_in_memory() -> None:
    weight, inputs = random_tensor(30, 20), random_tensor(4, 30)
    expected = Int8Product(weight.t().contiguous())(inputs)
    assert_array_equal(Int8Product(weight.t())(inputs), expected)


@needs_int8
def test_a_value_that_is_no_number_stays_in_its_row() -> None:
    inputs = random_tensor(3, 8)
    inputs[1, 2] = torch.nan
    found = Int8Product(random_tensor(5, 8))(inputs)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()


@needs_int8
def test_int8_takes_rows_and_weights_of_zeros() -> None:
    weight = random_tensor(20, 8)
    weight[3] = 0
    inputs = random_tensor(12, 8)
    inputs[5] = 0
    found = Int8Product(weight, random_tensor(20, seed=1))(inputs)
    assert_array_equal(found[5], random_tensor(20, seed=1))
    assert_array_equal(found[:, 3], torch.full((12,), float(random_tensor(20, seed=1)[3])))


@needs_int8
def test_int8_is_near() -> None:
    sentences = [line.split() for line in ("The cat sat on the mat .", "She banks", "A bank")]
    exact, rounded = (
        np.concatenate(ElmoEmbedder(precision=precision).embed_batch(sentences), axis=1)
        for precision in ("float32", "int8")
    )
    errors = [
        np.linalg.norm(found - values) / np.linalg.norm(values)
        for found, values in zip(rounded, exact, strict=True)
    ]
    assert max(errors) < 0.02
    assert min(errors[1:]) > 1e-5  # the token layer is exact where there is no bfloat16


NO_VNNI = (
    "^precision int8: expected a processor with AVX-512 VNNI and a torch that knows it, "
    "found AVX2 and torch .*; use float32$"
)


def test_int8_names_the_processor_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    with pytest.raises(InputError, match=NO_VNNI):
        ElmoEmbedder("missing.json", "missing.hdf5", precision="int8")


@needs_int8
def test_int8_is_refused_where_its_sums_are_cut_off() -> None:
    """As with oneDNN held to AVX2, which has no sums of 32 bits."""
    program = "from elmo_cli import ElmoEmbedder; ElmoEmbedder(precision='int8')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1].removeprefix("elmo_cli.errors.InputError: ")
    assert re.match(NO_VNNI, last), done.stderr


def test_int8_is_for_the_cpu() -> None:
    message = "precision int8: expected the CPU, found cuda:1; use float16"
    with pytest.raises(InputError, match=f"^{message}$"):
        compute_types("int8", torch.device("cuda", 1))


@needs_int8
def test_without_bfloat16_the_other_products_of_int8_are_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    types = compute_types("int8", CPU)
    assert (types.values, types.factors) == (torch.float32, torch.float32)


@pytest.mark.parametrize(
    "precision", ["float32", "bfloat16", "float16", pytest.param("int8", marks=needs_int8)]
)
def test_linear_modules_become_products(precision: Precision) -> None:
    highway = Highway(6)
    inputs = random_tensor(5, 6)
    expected = highway(inputs).detach()
    compute_types(precision, CPU).use_products(highway)
    assert {type(child) for child in highway.children()} == {ProductLinear}
    assert not list(highway.parameters())
    found = highway(inputs)
    assert found.dtype == torch.float32
    assert_allclose(found, expected, atol=1e-6 if precision == "float32" else 0.05)
