"""Steps of the fast LSTM, in torch and in C, against the formulas in float64."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.compiled import kernels
from elmo_cli.inference import fast_lstm as fast_lstms
from elmo_cli.inference.fast_lstm import FastLstm
from elmo_cli.inference.gate_blocks import from_blocks
from elmo_cli.inference.input_gates import TableRows, compute_input_gates
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.trie import build_trie
from elmo_cli.model.lstm import FORGET_BIAS, Lstm, LstmState
from elmo_cli.model.options import LstmOptions
from tests.support.cell_formulas import PROCESSORS, cells_after, processor
from tests.support.strategies import padded, random_tensor, seeds

CPU = torch.device("cpu")
FLOAT = torch.float32
SHORT = torch.bfloat16
TYPES = [(FLOAT, FLOAT), (FLOAT, SHORT), (SHORT, SHORT)]
WITHOUT = {"torch": ("step", "cells"), "cells": ("step",), "step": ()}
"""The functions in C that each way of taking a step does without."""
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
    options = LstmOptions(dim, width, n_layers=1, cell_clip=clip, proj_clip=clip)
    made = Lstm(options, projects=True)
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
    """Return the layer with steps in torch, with cells in C, or with whole steps in C."""

    def has_kernel(name: str) -> bool:
        return not name.startswith(WITHOUT[way]) and kernels.has_kernel(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_lstms, "has_kernel", has_kernel)
        layer = FastLstm(made, ComputeTypes(CPU, values, weights, values))
    assert (layer._step_kernel is not None) == (way == "step")
    return layer


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
    shape = len(hidden), before.table.shape[1]
    after = torch.empty(shape)
    out = torch.empty(shape, dtype=dtype)
    layer.compute_step(inputs, hidden, before, after, out)
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
    last = torch.tensor([len(hidden) - 1])
    one = [
        TableRows(table, last if rows is None else rows[-1:])
        for table, rows in (inputs, before)
    ]
    for values, alone in zip(
        results, step(layer, one[0], hidden[-1:], one[1], dtype), strict=True
    ):
        assert torch.equal(values[-1:], alone)
    return results


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("way", ["torch", pytest.param("cells", marks=needs_kernels)])
@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 70)),
    clip=clips,
    uses_table=st.tuples(st.booleans(), st.booleans()),
    spread=st.sampled_from([0.5, 5, 200]),
    seed=seeds,
)
def test_cells_follow_the_formulas(
    way: str,
    types: Any,
    sizes: Any,
    clip: float | None,
    uses_table: Any,
    spread: float,
    seed: int,
) -> None:
    (gates, out_type) = types
    (n, dim) = sizes
    with_rows, with_parents = uses_table
    table = (spread * random_tensor(n + 3, 4 * dim, seed=seed)).to(gates)
    rows = torch.arange(n).mul_(5).remainder_(n + 3) if with_rows else None
    inputs = TableRows(table if with_rows else table[:n], rows)
    hidden = random_tensor(n, 3, seed=seed + 1).to(gates)
    cells = random_tensor(max(n, 4), dim, seed=seed + 3)
    parents = torch.arange(n) % 4 if with_parents else None
    before = TableRows(cells if with_parents else cells[:n], parents)

    layer = prepared(lstm(dim, 3, clip), gates, out_type, way)
    summed = double(inputs.values()) + double(layer.hidden_gates(hidden))
    if way == "torch" and gates == SHORT:  # torch rounds the sum
        summed = double(torch.from_numpy(summed).to(gates))
    expected, projected = cells_after(summed, double(before.values()), clip or np.inf)

    after, out = step(layer, inputs, hidden, before, out_type)
    tolerance = 1e-6 + (4e-7 * spread if gates == FLOAT else 0)
    assert_allclose(double(after), expected, atol=tolerance)
    tolerance = max(tolerance, 2**-8 if out_type == SHORT else 0)
    assert_allclose(double(out), projected, atol=tolerance)


@pytest.mark.parametrize("way", ["cells", *PROCESSORS])
@given(
    n=st.integers(1, 90),
    dim=st.integers(1, 80),
    width=st.one_of(st.integers(1, 9), st.integers(330, 360)),
    clip=clips,
    in_table=st.booleans(),
    seed=seeds,
)
def test_a_step_follows_the_formulas(
    way: str,
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
    inputs, hidden = (random_tensor(n + 3, width, seed=seed + k) for k in (2, 3))
    cells = random_tensor(n + 3, dim, seed=seed + 4)
    tokens = (5 * torch.arange(n)) % (n + 3) if in_table else torch.arange(n)
    parents = torch.arange(n).flip(0)
    with processor(way) if way in PROCESSORS else nullcontext():
        layer = prepared(made, way="step" if way in PROCESSORS else way)
        gates = layer.input_gates(inputs)
        rows = TableRows(gates, tokens) if in_table else TableRows(gates[:n], None)
        compute = step_and_alone if way in PROCESSORS else step
        after, out = compute(layer, rows, hidden[:n], TableRows(cells, parents))

    together = double(torch.cat([inputs[tokens], hidden[:n]], dim=1))
    summed = together @ double(made.gates.weight).T + double(made.gates.bias)
    summed[:, 2 * dim : 3 * dim] += FORGET_BIAS
    expected, projected = cells_after(summed, double(cells[parents]), clip or np.inf)
    assert_allclose(double(after), expected, atol=5e-6)
    assert_allclose(double(out), projected, atol=5e-6)


@needs_tiles
@given(
    sizes=st.tuples(
        st.integers(1, 100), st.integers(1, 50), st.sampled_from([32, 64, 1056])
    ),
    clip=clips,
    spread=st.sampled_from([0.01, 1, 40]),
    in_table=st.booleans(),
    seed=seeds,
)
def test_a_step_by_tiles_follows_the_formulas(
    sizes: tuple[int, int, int],
    clip: float | None,
    spread: float,
    in_table: bool,
    seed: int,
) -> None:
    n, dim, width = sizes
    made = lstm(dim, width, clip, seed)
    layer = prepared(made, SHORT, SHORT, "step")
    gates = spread * random_tensor(n + 3, layer.input_gates.n_outputs, seed=seed + 1)
    gates = gates.to(SHORT)
    hidden = random_tensor(n, width, seed=seed + 2).to(SHORT)
    cells = random_tensor(n + 3, dim, seed=seed + 3)
    tokens = (5 * torch.arange(n)) % (n + 3) if in_table else torch.arange(n)
    parents = torch.arange(n).flip(0)
    table = TableRows(gates, tokens) if in_table else TableRows(gates[:n], None)
    after, out = step_and_alone(layer, table, hidden, TableRows(cells, parents), SHORT)

    input_gates = from_blocks(
        gates[tokens].t(), dim, kernels.read_constant("block")
    ).t()
    summed = (
        double(input_gates)
        + double(hidden) @ double(made.gates.weight[:, width:].to(SHORT)).T
    )
    expected, projected = cells_after(summed, double(cells[parents]), clip or np.inf)
    assert_allclose(double(after), expected, atol=1e-5)
    assert_allclose(double(out), projected, atol=1e-5, rtol=2**-8)


@needs_tiles
def test_a_step_by_tiles_keeps_values_that_are_not_numbers() -> None:
    layer = prepared(lstm(20, 32), SHORT, SHORT, "step")
    gates = torch.zeros(3, layer.input_gates.n_outputs, dtype=SHORT)
    gates[1, 0] = torch.nan
    gates[2, 17] = torch.inf
    before = TableRows(torch.zeros(3, 20), torch.arange(3))
    after, out = step(
        layer, TableRows(gates, None), gates.new_zeros(3, 32), before, SHORT
    )
    assert (
        after.isnan().nonzero().tolist() == out.isnan().nonzero().tolist() == [[1, 0]]
    )
    assert_allclose(after[2, 1], 0.5, atol=1e-5)


@needs_kernels
def test_small_values_keep_their_digits() -> None:
    """Check tanh of small values, which would lose their digits if computed by the sigmoid."""
    n = 40
    dim = 64
    gates = torch.zeros(n, 4 * dim)
    gates[:, dim : 2 * dim] = torch.logspace(-9, 1, n)[:, None] * (
        1 - 2 * (torch.arange(dim) % 2)
    )
    zeros = TableRows(torch.zeros(n, dim), torch.arange(n))
    after, out = step(
        prepared(lstm(dim, 3)), TableRows(gates, None), torch.zeros(n, 3), zeros
    )
    expected, projected = cells_after(double(gates), np.zeros((n, dim)), np.inf)
    assert_allclose(double(after), expected, rtol=1e-6)
    assert_allclose(double(out), projected, rtol=1e-6)


@needs_kernels
@pytest.mark.parametrize("dtype", [FLOAT, pytest.param(SHORT, marks=needs_tiles)])
@given(
    sentences=st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=7
    ),
    backward=st.booleans(),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    clip=st.sampled_from([None, 0.1]),
    seed=seeds,
)
def test_steps_at_once_have_the_bits_of_single_steps(
    dtype: Any,
    sentences: Any,
    backward: bool,
    sizes: Any,
    clip: float | None,
    seed: int,
) -> None:
    n_roots, n_tokens = sizes
    layer = prepared(lstm(64, 32, clip, seed), dtype, dtype, "step")
    roots = np.arange(len(sentences)) % n_roots
    trie = build_trie(padded(sentences), roots, CPU, backward=backward)
    vectors = random_tensor(3, 32, seed=seed + 1).to(dtype)
    workspace = torch.empty(n_tokens, 256, dtype=dtype)
    hidden_state = random_tensor(n_roots, 32, seed=seed + 2).to(dtype)
    state = LstmState(hidden_state, random_tensor(n_roots, 64, seed=seed + 3))

    def run() -> tuple[Tensor, Tensor, Tensor]:
        tokens = vectors, trie.tokens, trie.sizes
        gates = compute_input_gates(layer.compute_gates, *tokens, workspace)
        hidden, ended = layer.run(gates, trie, state)
        return hidden, *ended

    assert layer._steps_kernel is not None
    at_once = run()
    layer._steps_kernel = None
    for values, expected in zip(at_once, run(), strict=True):
        assert torch.equal(values, expected)


@needs_kernels
def test_tensors_that_c_would_misread_raise_an_error() -> None:
    layer = prepared(lstm(20, 4))
    hidden = torch.zeros(2, 4)
    parents = torch.tensor([0, 1])
    gates = torch.zeros(2, 80)
    cells = torch.ones(2, 20)
    with pytest.raises(ValueError, match=r"found torch\.float32, strides \(1, 2\)$"):
        step(
            layer,
            TableRows(gates, None),
            hidden,
            TableRows(torch.ones(20, 2).t(), parents),
        )
    message = r"expected a contiguous tensor of torch\.float32, .* torch\.bfloat16, "
    with pytest.raises(ValueError, match=message):
        step(layer, TableRows(gates.to(SHORT), None), hidden, TableRows(cells, parents))


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


def test_other_types_and_processors_have_no_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not kernels.has_kernel("product_float16")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    assert not kernels.has_kernel("product_float32")
