"""From gates to cells, in torch and compiled, against the formulas in float64."""

import platform
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cell_formulas import assert_the_same_alone, cells_after
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from strategies import random_tensor
from torch import Tensor

from elmo_cli.inference import kernels
from elmo_cli.inference.cells import NextCells, TableRows, next_cells
from elmo_cli.inference.compiled_cells import compiled_next_cells
from elmo_cli.inference.linear import ScaledRows

FLOAT, SHORT = torch.float32, torch.bfloat16
TYPES = [(FLOAT, FLOAT), (FLOAT, SHORT), (SHORT, SHORT)]
CAN_COMPILE = (
    (sys.platform, platform.machine()) == ("linux", "x86_64")
    and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    and shutil.which("cc") is not None
)
needs_compiled = pytest.mark.skipif(not CAN_COMPILE, reason="needs a C compiler on x86-64")


def compiled(gates: torch.dtype, half: torch.dtype) -> NextCells:
    found = compiled_next_cells(gates, half)
    assert found is not None
    return found


def double(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.double().numpy()
    return array


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("way", ["torch", pytest.param("compiled", marks=needs_compiled)])
@given(
    n=st.integers(1, 9),
    dim=st.integers(1, 70),
    clip=st.sampled_from([np.inf, 3.0, 0.1]),
    with_rows=st.booleans(),
    with_parents=st.booleans(),
    with_scales=st.booleans(),
    with_shared=st.booleans(),
    spread=st.sampled_from([0.5, 5, 200]),
    seed=st.integers(0, 99),
)
def test_cells_are_those_of_the_formulas(
    way: str,
    types: tuple[torch.dtype, torch.dtype],
    n: int,
    dim: int,
    clip: float,
    with_rows: bool,
    with_parents: bool,
    with_scales: bool,
    with_shared: bool,
    spread: float,
    seed: int,
) -> None:
    gates, half_type = types
    with_scales = with_scales and gates == FLOAT
    table = (spread * random_tensor(n + 3, 4 * dim, seed=seed)).to(gates)
    rows = torch.arange(n).mul_(5).remainder_(n + 3) if with_rows else None
    from_inputs = TableRows(table if with_rows else table[:n], rows)
    m = (n + 1) // 2 if with_shared else n
    which = torch.arange(n) // 2 if with_shared else None
    hidden = random_tensor(m, 4 * dim, seed=seed + 1).to(gates)
    scales = random_tensor(m, 1, seed=seed + 2) if with_scales else None
    cells = random_tensor(max(n, 4), dim, seed=seed + 3)
    parents = torch.arange(n) % 4 if with_parents else None
    before = TableRows(cells if with_parents else cells[:n], parents).values()

    summed = double(from_inputs.values())
    products = double(hidden) * (1 if scales is None else double(scales))
    summed += products if which is None else products[which]
    if way == "torch" and gates == SHORT:  # torch rounds the sum
        summed = double(torch.from_numpy(summed).to(gates))
    summed[:, dim : 2 * dim] /= 2  # they come doubled
    expected, projected = cells_after(summed, double(before), clip)

    out, half = torch.empty(n, dim), torch.empty(n, dim, dtype=half_type)
    function = next_cells if way == "torch" else compiled(*types)
    function(
        from_inputs,
        ScaledRows(hidden, scales, which),
        TableRows(2 * cells if with_parents else 2 * cells[:n], parents),
        clip,
        out,
        half,
    )
    tolerance = 1e-6 + (4e-7 * spread if gates == FLOAT else 0)
    assert_allclose(double(out) / 2, expected, atol=tolerance)
    tolerance = max(tolerance, 2**-8 if half_type == SHORT else 0)
    assert_allclose(2 * double(half), projected, atol=tolerance)


@needs_compiled
@pytest.mark.parametrize("types", TYPES)
def test_rows_do_not_depend_on_threads_or_neighbours(
    types: tuple[torch.dtype, torch.dtype],
) -> None:
    function, n, dim = compiled(*types), 13, 35
    inputs, hidden = (random_tensor(n, 4 * dim, seed=seed).to(types[0]) for seed in (1, 2))
    cells, parents = random_tensor(n, dim, seed=3), torch.arange(n)

    def run(nodes: slice) -> tuple[Tensor, Tensor]:
        out = torch.empty(n, dim)[nodes]
        half = torch.empty_like(out, dtype=types[1])
        table = TableRows(inputs[nodes], None)
        function(table, ScaledRows(hidden[nodes]), TableRows(cells, parents[nodes]), 3.0, out, half)
        return out, half

    assert_the_same_alone(run, n)


@needs_compiled
def test_a_value_that_is_no_number_stays_in_its_place() -> None:
    for types in TYPES:
        out, half = torch.empty(2, 20), torch.empty(2, 20, dtype=types[1])
        inputs = torch.zeros(2, 80, dtype=types[0])
        inputs[1, 3] = torch.nan  # an input gate
        zeros = ScaledRows(torch.zeros(2, 80, dtype=types[0]))
        cells = TableRows(torch.ones(2, 20), torch.tensor([0, 1]))
        compiled(*types)(TableRows(inputs, None), zeros, cells, 3.0, out, half)
        for values in (out, half):
            assert values[1, 3].isnan()
            values[1, 3] = 0
            assert values.isfinite().all()


@needs_compiled
def test_memory_that_c_would_misread_is_refused() -> None:
    def run(cells: Tensor, hidden: Tensor) -> None:
        compiled(FLOAT, FLOAT)(
            TableRows(torch.zeros(2, 80), None),
            ScaledRows(hidden),
            TableRows(cells, torch.tensor([0, 1])),
            3.0,
            torch.empty(2, 20),
            torch.empty(2, 20),
        )

    with pytest.raises(ValueError, match=r"found torch\.float32, strides \(1, 2\)$"):
        run(torch.ones(20, 2).t(), torch.zeros(2, 80))
    with pytest.raises(ValueError, match=r"expected torch\.float32 in order.* torch\.bfloat16, "):
        run(torch.ones(2, 20), torch.zeros(2, 80, dtype=SHORT))


@needs_compiled
def test_a_library_of_another_source_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in kernels._SOURCE.parent.glob("kernels[._]*"):
        shutil.copy(file, tmp_path)
    source = tmp_path / "kernels.c"
    monkeypatch.setattr(kernels, "_SOURCE", source)
    kernels._function.cache_clear()
    try:
        assert compiled_next_cells(FLOAT, FLOAT) is not None
        kernels._function.cache_clear()
        source.write_text(source.read_text() + "\n")
        assert compiled_next_cells(FLOAT, FLOAT) is None
    finally:
        kernels._function.cache_clear()


def test_other_types_and_processors_have_no_compiled_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compiled_next_cells(torch.float16, torch.float16) is None
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    assert compiled_next_cells(FLOAT, FLOAT) is None


def test_rows_of_a_table_are_taken_by_their_numbers() -> None:
    table, rows = random_tensor(5, 3), torch.tensor([4, 0, 0, 2])
    assert_array_equal(TableRows(table, rows).values(), table[rows])
    assert_array_equal(TableRows(table, None).values(), table)
