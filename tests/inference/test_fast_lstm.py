"""Steps of the fast LSTM, in torch and in C, against the formulas in float64."""

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.compiled import kernels
from elmo_cli.inference import input_gates
from elmo_cli.inference.fast_lstm import FastLstm, LstmKernels
from elmo_cli.inference.gate_blocks import from_blocks
from elmo_cli.inference.input_gates import StepGates, TableRows, compute_input_gates
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.trie import build_trie
from elmo_cli.model.architecture import LstmArchitecture
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState
from tests.support.cell_formulas import PROCESSORS, cells_after, processor
from tests.support.commands import PROGRAMS, run_python
from tests.support.processors import processors_with
from tests.support.strategies import padded, random_tensor, seeds

CPU = torch.device("cpu")
FLOAT = torch.float32
SHORT = torch.bfloat16
TYPES = [(FLOAT, FLOAT), (FLOAT, SHORT), (SHORT, SHORT)]
needs_kernels = pytest.mark.skipif(
    not kernels.has_kernel("step_float32"),
    reason="needs a C compiler when installed, on Linux",
)
needs_tiles = pytest.mark.skipif(
    not kernels.has_tiles(), reason="needs AMX and a C compiler"
)
clips = st.sampled_from([None, 3.0, 0.1])


def lstm(dim: int, width: int, clip: float | None = None, seed: int = 0) -> Lstm:
    torch.manual_seed(seed)
    architecture = LstmArchitecture(
        dim=dim,
        projection_dim=width,
        n_layers=1,
        cell_clip=clip,
        proj_clip=clip,
    )
    made = Lstm(architecture, projects=True)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-1, 1)
    return made


def prepared(
    made: Lstm,
    values: torch.dtype = FLOAT,
    weights: torch.dtype = FLOAT,
    way: str = "cells",
) -> FastLstm:
    """Return the layer with steps in torch, cells in C, or whole steps in C."""
    types = ComputeTypes(
        device=CPU, values=values, weights=weights, gate_weights=values
    )
    layer = FastLstm(made, types)
    if way == "step":
        assert layer.kernels.step is not None
        return layer
    cells = layer.kernels.cells if way == "cells" else None
    return FastLstm(made, types, LstmKernels(cells=cells))


def double(values: Tensor) -> Any:
    return values.detach().double().numpy()


def step(
    layer: FastLstm,
    inputs: TableRows,
    hidden: Tensor,
    before: TableRows,
    dtype: Any = FLOAT,
) -> tuple[Tensor, Tensor]:
    """Return the cells after a step, and the inputs of the projection."""
    n_nodes = len(hidden)
    dim = before.table.shape[1]
    after = torch.empty(n_nodes, dim)
    out = torch.empty(n_nodes, dim, dtype=dtype)
    layer.compute_step(inputs, hidden=hidden, cells=before, after=after, out=out)
    return after, out


def step_and_alone(
    layer: FastLstm,
    inputs: TableRows,
    hidden: Tensor,
    before: TableRows,
    dtype: Any = FLOAT,
) -> tuple[Tensor, Tensor]:
    """Return what 5 threads compute. The last node has the bits that it has alone."""
    torch.set_num_threads(5)
    try:
        results = step(layer, inputs, hidden, before, dtype)
    finally:
        torch.set_num_threads(1)
    alone = step(layer, last_row(inputs), hidden[-1:], last_row(before), dtype)
    for values, of_last in zip(results, alone, strict=True):
        assert torch.equal(values[-1:], of_last)
    return results


def last_row(rows_of_table: TableRows) -> TableRows:
    table, rows = rows_of_table
    if rows is None:
        rows = torch.arange(len(table))
    return TableRows(table, rows[-1:])


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("way", ["torch", pytest.param("cells", marks=needs_kernels)])
@given(
    n=st.integers(1, 9),
    dim=st.integers(1, 70),
    clip=clips,
    with_rows=st.booleans(),
    with_parents=st.booleans(),
    spread=st.sampled_from([0.5, 5, 200]),
    seed=seeds,
)
def test_cells_follow_the_formulas(
    way: str,
    types: tuple[torch.dtype, torch.dtype],
    n: int,
    dim: int,
    clip: float | None,
    with_rows: bool,
    with_parents: bool,
    spread: float,
    seed: int,
) -> None:
    gates, out_type = types
    table = spread * random_tensor(n + 3, 4 * dim, seed=seed)
    inputs = rows_or_whole(table.to(gates), n, with_rows)
    hidden = random_tensor(n, 3, seed=seed + 1).to(gates)
    cells = random_tensor(max(n, 4), dim, seed=seed + 3)
    if with_parents:
        before = TableRows(cells, torch.arange(n) % 4)
    else:
        before = TableRows(cells[:n], None)

    layer = prepared(lstm(dim, 3, clip), gates, out_type, way)
    summed = double(inputs.values()) + double(layer.hidden_gates(hidden))
    if way == "torch" and gates == SHORT:  # torch rounds the sum
        summed = double(torch.from_numpy(summed).to(gates))
    cells_before = double(before.values())
    expected, projected = cells_after(summed, cells_before, clip or np.inf)

    after, out = step(layer, inputs, hidden, before, out_type)
    tolerance = 1e-6
    if gates == FLOAT:
        tolerance += 4e-7 * spread
    assert_allclose(double(after), expected, atol=tolerance)
    if out_type == SHORT:
        tolerance = max(tolerance, 2**-8)
    assert_allclose(double(out), projected, atol=tolerance)


def rows_or_whole(table: Tensor, n: int, in_table: bool) -> TableRows:
    """Return n rows: some of a table in an order of their own, or a table of n rows."""
    if in_table:
        return TableRows(table, row_numbers(n, in_table))
    return TableRows(table[:n], None)


def row_numbers(n: int, in_table: bool) -> Tensor:
    """Return the numbers of the rows of `rows_or_whole`."""
    if in_table:
        return 5 * torch.arange(n) % (n + 3)
    return torch.arange(n)


@pytest.mark.parametrize("capability", [pytest.param(None, id="cells"), *PROCESSORS])
@given(
    n=st.integers(1, 90),
    dim=st.integers(1, 80),
    width=st.one_of(st.integers(1, 9), st.integers(330, 360)),
    clip=clips,
    in_table=st.booleans(),
    seed=seeds,
)
def test_a_step_follows_the_formulas(
    capability: str | None,
    n: int,
    dim: int,
    width: int,
    clip: float | None,
    in_table: bool,
    seed: int,
) -> None:
    made = lstm(dim, width, clip, seed)
    with torch.no_grad():
        made.gates.weight /= width**0.5
    inputs = random_tensor(n + 3, width, seed=seed + 2)
    hidden = random_tensor(n, width, seed=seed + 3)
    cells = random_tensor(n + 3, dim, seed=seed + 4)
    parents = torch.arange(n).flip(0)
    before = TableRows(cells, parents)
    if capability is None:
        layer = prepared(made, way="cells")
        rows = rows_or_whole(layer.input_gates(inputs), n, in_table)
        after, out = step(layer, rows, hidden, before)
    else:
        with processor(capability):
            layer = prepared(made, way="step")
            rows = rows_or_whole(layer.input_gates(inputs), n, in_table)
            after, out = step_and_alone(layer, rows, hidden, before)

    tokens = row_numbers(n, in_table)
    together = double(torch.cat([inputs[tokens], hidden], dim=1))
    summed = together @ double(made.gates.weight).T
    summed += double(made.gates.bias)
    forget_gates = slice(2 * dim, 3 * dim)
    summed[:, forget_gates] += FORGET_BIAS
    cells_before = double(cells[parents])
    expected, projected = cells_after(summed, cells_before, clip or np.inf)
    assert_allclose(double(after), expected, atol=5e-6)
    assert_allclose(double(out), projected, atol=5e-6)


@needs_tiles
@given(
    n=st.integers(1, 100),
    dim=st.integers(1, 50),
    width=st.sampled_from([32, 64, 1056]),
    clip=clips,
    spread=st.sampled_from([0.01, 1, 40]),
    in_table=st.booleans(),
    seed=seeds,
)
def test_a_step_by_tiles_follows_the_formulas(
    n: int,
    dim: int,
    width: int,
    clip: float | None,
    spread: float,
    in_table: bool,
    seed: int,
) -> None:
    made = lstm(dim, width, clip, seed)
    layer = prepared(made, SHORT, SHORT, "step")
    n_outputs = layer.input_gates.n_outputs
    gates = (spread * random_tensor(n + 3, n_outputs, seed=seed + 1)).to(SHORT)
    hidden = random_tensor(n, width, seed=seed + 2).to(SHORT)
    cells = random_tensor(n + 3, dim, seed=seed + 3)
    parents = torch.arange(n).flip(0)
    rows = rows_or_whole(gates, n, in_table)
    before = TableRows(cells, parents)
    after, out = step_and_alone(layer, rows, hidden, before, SHORT)

    tokens = row_numbers(n, in_table)
    block = kernels.read_constant("block")
    input_gates = from_blocks(gates[tokens].t(), dim, block).t()
    hidden_weight = made.gates.weight[:, width:].to(SHORT)
    summed = double(input_gates)
    summed += double(hidden) @ double(hidden_weight).T
    cells_before = double(cells[parents])
    expected, projected = cells_after(summed, cells_before, clip or np.inf)
    assert_allclose(double(after), expected, atol=1e-5)
    assert_allclose(double(out), projected, atol=1e-5, rtol=2**-8)


@needs_tiles
def test_a_step_by_tiles_keeps_values_that_are_not_numbers() -> None:
    layer = prepared(lstm(20, 32), SHORT, SHORT, "step")
    gates = torch.zeros(3, layer.input_gates.n_outputs, dtype=SHORT)
    gates[1, 0] = torch.nan
    gates[2, 17] = torch.inf
    inputs = TableRows(gates, None)
    hidden = gates.new_zeros(3, 32)
    before = TableRows(torch.zeros(3, 20), torch.arange(3))
    after, out = step(layer, inputs, hidden, before, SHORT)
    assert after.isnan().nonzero().tolist() == [[1, 0]]
    assert out.isnan().nonzero().tolist() == [[1, 0]]
    assert_allclose(after[2, 1], 0.5, atol=1e-5)


@needs_kernels
def test_small_values_keep_their_digits() -> None:
    """Check tanh of small values, which lose digits if computed by the sigmoid."""
    n = 40
    dim = 64
    sizes = torch.logspace(-9, 1, n)
    signs = torch.tensor([1, -1]).repeat(dim // 2)
    gates = torch.zeros(n, 4 * dim)
    gates[:, dim : 2 * dim] = sizes[:, None] * signs
    layer = prepared(lstm(dim, 3))
    inputs = TableRows(gates, None)
    before = TableRows(torch.zeros(n, dim), torch.arange(n))
    after, out = step(layer, inputs, torch.zeros(n, 3), before)
    expected, projected = cells_after(double(gates), np.zeros((n, dim)), np.inf)
    assert_allclose(double(after), expected, rtol=1e-6)
    assert_allclose(double(out), projected, rtol=1e-6)


RUNS = [(name, FLOAT, FLOAT) for name in PROCESSORS]
"""Kinds of processor that compute several steps at once, and the types there: of all
products except the gates', and of the gates'."""
if kernels.has_tiles():
    RUNS.append(("AVX512", SHORT, SHORT))
for _dtype in (torch.int8, torch.int16):
    RUNS += [(name, torch.int16, _dtype) for name in processors_with(_dtype)]


@pytest.mark.parametrize(("capability", "weights", "gate_weights"), RUNS)
@given(
    sentences=st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=9),
        min_size=1,
        max_size=7,
    ),
    dim=st.sampled_from([64, 37]),
    backward=st.booleans(),
    n_roots=st.integers(1, 3),
    n_tokens=st.integers(1, 3),
    n_threads=st.integers(1, 3),
    clip=st.sampled_from([None, 0.1]),
    seed=seeds,
)
def test_steps_at_once_have_the_bits_of_single_steps(
    capability: str,
    weights: torch.dtype,
    gate_weights: torch.dtype,
    sentences: list[list[int]],
    dim: int,
    backward: bool,
    n_roots: int,
    n_tokens: int,
    n_threads: int,
    clip: float | None,
    seed: int,
) -> None:
    values = SHORT if weights == SHORT else FLOAT
    if weights == SHORT:
        dim = 64  # whole tiles
    roots = np.arange(len(sentences)) % n_roots
    trie = build_trie(padded(sentences), roots, CPU, backward=backward)
    vectors = random_tensor(3, 32, seed=seed + 1).to(values)
    state = LstmState(
        hidden=random_tensor(n_roots, 32, seed=seed + 2).to(values),
        cell=random_tensor(n_roots, dim, seed=seed + 3),
    )
    types = ComputeTypes(
        device=CPU, values=values, weights=weights, gate_weights=gate_weights
    )

    def run(layer: FastLstm) -> tuple[Tensor, Tensor, Tensor]:
        gates = compute_input_gates(
            layer.compute_gates,
            vectors,
            tokens=trie.tokens,
            sizes=trie.sizes,
            workspace=torch.empty(n_tokens, layer.input_gates.n_outputs, dtype=values),
        )
        hidden, ended = layer.run(gates, trie, state)
        return hidden, ended.hidden, ended.cell

    with processor(capability):
        made = lstm(dim, 32, clip, seed)
        layer = FastLstm(made, types)
        assert layer.kernels.steps is not None
        torch.set_num_threads(n_threads)
        try:
            results = run(layer)
        finally:
            torch.set_num_threads(1)
        if layer.kernels.step is not None:
            layer = FastLstm(made, types, layer.kernels._replace(steps=None))
        with patch.object(input_gates, "MAX_STEPS", 1):  # one step per call of C
            expected = run(layer)
    for values_at_once, values_in_turn in zip(results, expected, strict=True):
        assert torch.equal(values_at_once, values_in_turn)


@pytest.mark.parametrize("gate_weights", [torch.int8, torch.int16])
@pytest.mark.parametrize("capability", processors_with(torch.int8))
@given(
    n=st.integers(1, 90),
    dim=st.integers(1, 80),
    width=st.integers(1, 9) | st.integers(1020, 1040),
    clip=clips,
    seed=seeds,
)
def test_a_step_of_integers_is_the_products_and_the_cells(
    capability: str,
    gate_weights: torch.dtype,
    n: int,
    dim: int,
    width: int,
    clip: float | None,
    seed: int,
) -> None:
    made = lstm(dim, width, clip, seed)
    with torch.no_grad():
        made.gates.weight /= width**0.5
    types = ComputeTypes(
        device=CPU, values=FLOAT, weights=torch.int16, gate_weights=gate_weights
    )
    sentences = [[token] for token in range(n)]
    trie = build_trie(padded(sentences), np.arange(n), CPU, backward=False)
    inputs = random_tensor(n, width, seed=seed + 1)
    state = LstmState(
        hidden=random_tensor(n, width, seed=seed + 2),
        cell=random_tensor(n, dim, seed=seed + 3),
    )
    results = []
    with processor(capability):
        at_once = FastLstm(made, types)
        in_parts = FastLstm(made, types, at_once.kernels._replace(steps=None))
        assert at_once.kernels.steps is not None
        for layer in (at_once, in_parts):
            gates = StepGates(sizes=[n], table=layer.compute_gates(inputs), rows=None)
            hidden, ended = layer.run(iter([gates]), trie, state)
            results.append((hidden, ended.cell))
    (hidden, cell), (expected_hidden, expected_cell) = results
    assert_allclose(cell, expected_cell, atol=5e-6)
    # Where the inputs of the projection differ in their last bits, some are rounded to
    # another whole number.
    assert_allclose(hidden, expected_hidden, atol=1e-3 * dim)
    assert np.isclose(hidden, expected_hidden, atol=1e-5).mean() > 0.5


@needs_kernels
def test_tensors_that_c_would_misread_raise_an_error() -> None:
    layer = prepared(lstm(20, 4))
    hidden = torch.zeros(2, 4)
    parents = torch.tensor([0, 1])
    gates = torch.zeros(2, 80)
    cells = torch.ones(2, 20)
    inputs = TableRows(gates, None)
    before = TableRows(cells, parents)
    columns = TableRows(torch.ones(20, 2).t(), parents)
    with pytest.raises(ValueError, match=r"found torch\.float32, strides \(1, 2\)$"):
        step(layer, inputs, hidden, columns)
    short = TableRows(gates.to(SHORT), None)
    message = r"expected a contiguous tensor of torch\.float32, .* torch\.bfloat16, "
    with pytest.raises(ValueError, match=message):
        step(layer, short, hidden, before)


@needs_kernels
def test_a_library_of_old_code_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in kernels.SOURCE.parent.glob("kernels[._]*"):
        shutil.copy(file, tmp_path)
    source = tmp_path / "kernels.c"
    monkeypatch.setattr(kernels, "SOURCE", source)

    def has_kernel_now() -> bool:
        kernels._load_library.cache_clear()
        kernels._load_function.cache_clear()
        return kernels.has_kernel("step_float32")

    try:
        assert has_kernel_now()
        source.write_text(source.read_text() + "\n")
        assert not has_kernel_now()
    finally:
        monkeypatch.undo()
        has_kernel_now()


@needs_kernels
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_kernels_that_do_not_fit_into_memory_are_an_error() -> None:
    # Torch would compute other bits without a word.
    said = run_python(PROGRAMS / "load_kernels_in_little_memory.py").stdout
    assert said == "out of memory\n"


def test_other_types_and_processors_have_no_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not kernels.has_kernel("product_float16")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    assert not kernels.has_kernel("product_float32")
