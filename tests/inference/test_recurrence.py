"""A step of an LSTM, in torch and in C, against the formulas in float64."""

import numpy as np
import pytest
import torch
from cell_formulas import assert_the_same_alone, cells_after
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import random_tensor
from torch import Tensor

from elmo_cli.inference.cells import TableRows, next_cells
from elmo_cli.inference.linear import Product
from elmo_cli.inference.recurrence import LANES, CompiledRecurrence, Recurrence, compiles_steps

needs_kernel = pytest.mark.skipif(
    not compiles_steps(torch.zeros(4 * LANES, 1)), reason="needs AVX-512, and GCC when installed"
)
WAYS = ["torch", pytest.param("C", marks=needs_kernel)]


def recurrence(way: str, from_inputs: Tensor, from_hidden: Tensor, bias: Tensor) -> Recurrence:
    if way == "C":
        return CompiledRecurrence(from_inputs, from_hidden, bias)
    return Recurrence(Product(from_inputs, bias), Product(from_hidden), next_cells)


@pytest.mark.parametrize("way", WAYS)
@given(
    n=st.integers(1, 30),
    n_lanes=st.integers(1, 3),
    n_inputs=st.integers(1, 9),
    n_hidden=st.one_of(st.integers(1, 9), st.integers(330, 360)),
    clip=st.sampled_from([np.inf, 3.0, 0.1]),
    n_shared=st.integers(0, 9),
    in_table=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_step_is_that_of_the_formulas(
    way: str,
    n: int,
    n_lanes: int,
    n_inputs: int,
    n_hidden: int,
    clip: float,
    n_shared: int,
    in_table: bool,
    seed: int,
) -> None:
    dim, n_rows = n_lanes * LANES, n + 3
    weights = [random_tensor(4 * dim, k, seed=seed) / k**0.5 for k in (n_inputs, n_hidden)]
    from_inputs, from_hidden = weights
    bias = random_tensor(4 * dim, seed=seed + 1)
    inputs = random_tensor(n_rows, n_inputs, seed=seed + 2)
    hidden, cells = (random_tensor(n_rows, k, seed=seed + 3) for k in (n_hidden, dim))
    tokens = (5 * torch.arange(n)) % n_rows if in_table else torch.arange(n)
    shared = torch.arange(n) // n_shared if n_shared else torch.arange(n)
    parents = torch.arange(n).flip(0)

    found = recurrence(way, from_inputs, from_hidden, bias)
    # The memory gate comes doubled, as do cells, and of what is projected the half is given.
    out, half = torch.empty(n, dim), torch.empty(n, dim)
    gates = found.from_inputs(inputs)
    found.take_step(
        TableRows(gates, tokens) if in_table else TableRows(gates[:n], None),
        TableRows(hidden, shared) if n_shared else TableRows(hidden, None),
        TableRows(2 * cells, parents),
        clip,
        out,
        half,
    )

    products = [inputs[tokens], hidden[shared]]
    pairs = zip(products, weights, strict=True)
    summed = bias.double() + sum(a.double() @ w.double().t() for a, w in pairs)
    summed[:, dim : 2 * dim] /= 2
    before = cells[parents].double()
    expected, projected = cells_after(summed.numpy(), before.numpy(), clip)
    assert_allclose(out.double() / 2, expected, atol=5e-6)
    assert_allclose(2 * half.double(), projected, atol=5e-6)


@needs_kernel
def test_a_node_does_not_depend_on_others_or_threads() -> None:
    n, dim, n_hidden = 23, 5 * LANES, 40
    from_inputs, from_hidden = (random_tensor(4 * dim, n_hidden, seed=seed) for seed in (1, 2))
    found = CompiledRecurrence(from_inputs, from_hidden, random_tensor(4 * dim, seed=3))
    gates, hidden = found.from_inputs(random_tensor(n, n_hidden)), random_tensor(n, n_hidden)
    cells, rows = random_tensor(n, dim), torch.arange(n)

    def run(nodes: slice) -> tuple[Tensor, Tensor]:
        out = torch.empty(n, dim)[nodes]
        half = torch.empty_like(out)
        states = TableRows(hidden[nodes], None)
        at = TableRows(cells, rows[nodes])
        found.take_step(TableRows(gates[nodes], None), states, at, 3.0, out, half)
        return out, half

    assert_the_same_alone(run, n)


def test_a_step_in_c_is_for_dimensions_of_whole_blocks() -> None:
    assert not compiles_steps(torch.zeros(4 * 20, 8))
