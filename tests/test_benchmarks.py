"""Every row of the benchmark is measured, with a tiny model and little text."""

import json
from pathlib import Path

import gpu
import h5py
import lengths
import measure
import numpy as np
import pytest
import setting
import torch
from conftest import needs_int8
from process import median
from products import ProductLog
from stopwatch import Stopwatch

from elmo_cli.inference.cells import TableRows
from elmo_cli.inference.int8_product import Int8Product
from elmo_cli.inference.linear import CompiledProduct, OneDnnProduct, Product, product
from elmo_cli.inference.precision import Precision, compute_types
from elmo_cli.inference.recurrence import CompiledRecurrence, compiles_steps
from elmo_cli.model.token_encoder import Convolution


@pytest.mark.slow
def test_every_row_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "LONG", 50)
    output = tmp_path / "result.json"
    tiny = ["--tiny", "--lines=5", "--repeats=1", "--many-lines=300", f"--json={output}"]
    measure.main(tiny)
    content = json.loads(output.read_text())
    assert set(content) == {"machine", "rows"}
    assert content["machine"]["torch"] == torch.__version__
    rows = [setting.Row(**row) for row in content["rows"]]
    printed = capsys.readouterr().out
    for row in rows:
        assert f"| {row.what} | {row.target} | {row.found} |" in printed
    assert len(rows) == 18
    speed = next(row for row in rows if row.what.startswith("CPU, float32"))
    (turn,) = speed.figures["ours"]
    n_tokens = sum(len(line.split()) for line in setting.ALICE.read_text().splitlines()[:5])
    assert turn["tokens"] == n_tokens
    assert turn["tokens_per_second"] == pytest.approx(n_tokens / turn["embed_seconds"])
    assert 0 < turn["files_seconds"] < turn["embed_seconds"]


@pytest.mark.slow
def test_rows_of_a_gpu_are_measured_on_any_device(tmp_path: Path) -> None:
    tiny = setting.make_model(tmp_path / "tiny", setting.TINY)
    lines = ["a b c d e f g", "h"]
    on_cpu = setting.Setting(tmp_path, tiny, tiny, lines, repeats=2)
    average, writing = gpu.device_rows(on_cpu, -1)
    text = tmp_path / "shuffled.txt"
    copies = [sorted(line.split()) for line in text.read_text().splitlines()]
    assert copies == [list("abcdefg"), ["h"]] * gpu.COPIES
    assert len(set(text.read_text().splitlines())) > gpu.COPIES / 2
    assert [turn["tokens"] for turn in average.figures["ours"]] == [8 * gpu.COPIES] * 2
    with h5py.File(tmp_path / "average.hdf5") as file:
        assert file["0"].dtype == np.float16
        assert file["0"].shape == (7, 8)
    assert all(share > 0 for share in writing.figures["shares"])
    assert writing.found.startswith(f"{median(writing.figures['turns'], 'tokens_per_second'):,.0f}")


@pytest.mark.parametrize("n_bytes", [0, 1, gpu.BLOCK_BYTES, gpu.BLOCK_BYTES + 5])
def test_a_plain_write_has_as_many_bytes(n_bytes: int, tmp_path: Path) -> None:
    assert gpu.write_seconds(tmp_path / "bytes", n_bytes) > 0
    assert (tmp_path / "bytes").stat().st_size == n_bytes


@pytest.fixture
def plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are plain again after the test, whatever a `ProductLog` did."""
    names = {"__call__", "_multiply", "multiply", "multiply_into", "take_step"}
    owners = Product, OneDnnProduct, Int8Product, CompiledProduct, CompiledRecurrence, Convolution
    for owner in owners:
        for name in names & set(vars(owner)):
            monkeypatch.setattr(owner, name, getattr(owner, name))


@pytest.mark.usefixtures("plain_products")
def test_products_are_kept_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    conv = Convolution(2, 3, kernel_size=4)
    log = ProductLog()
    monkeypatch.setattr("elmo_cli.inference.linear.PACKED_WEIGHTS", {"AVX2": 0, "AVX512": 0})
    multiply, many = product(torch.ones(2, 3)), product(torch.ones(7, 6))  # packed, if they can be
    multiply(torch.ones(4, 3))
    many(torch.ones(200, 6))
    conv(torch.ones(9, 10, 2))  # 7 windows
    assert [shape for _, shape, _ in log.calls] == [(4, 3), (200, 6), (9, 7, 8)]
    assert log.flops == 2 * (4 * 3 * 2 + 200 * 6 * 7 + 9 * 7 * 2 * 4 * 3)
    assert log.seconds() > 0
    assert len(log.calls) == 3


@pytest.mark.skipif(not compiles_steps(torch.ones(64, 1)), reason="needs AVX-512 and GCC")
@pytest.mark.usefixtures("plain_products")
def test_a_step_in_c_counts_as_its_product() -> None:
    log = ProductLog()
    recurrence = CompiledRecurrence(torch.ones(64, 3), torch.ones(64, 5), torch.ones(64))
    gates = recurrence.from_inputs(torch.ones(2, 3))
    hidden = TableRows(torch.ones(1, 5), torch.tensor([0, 0]))  # both nodes have the same
    cells = TableRows(torch.ones(2, 16), torch.arange(2))
    out, half = torch.empty(2, 2, 16)
    recurrence.take_step(TableRows(gates, None), hidden, cells, 3.0, out, half)
    assert [shape for _, shape, _ in log.calls] == [(2, 3), (1, 5)]
    assert log.flops == 2 * (2 * 3 * 64 + 5 * 64)
    before = out.clone()
    assert log.seconds() > 0
    assert torch.equal(out, before)
    assert len(log.calls) == 2


@pytest.mark.parametrize("precision", ["bfloat16", pytest.param("int8", marks=needs_int8)])
@pytest.mark.usefixtures("plain_products")
def test_products_of_other_precisions_can_be_repeated(precision: Precision) -> None:
    types = compute_types(precision, torch.device("cpu"))
    weight = torch.ones(128, 128)  # large enough for one in C
    log = ProductLog()
    gates = types.recurrence(weight, weight, torch.zeros(128), types.factors).from_inputs
    gates(torch.ones(3, 128, dtype=types.values))
    types.product(weight)(torch.ones(4, 128, dtype=types.values))
    assert [shape for _, shape, _ in log.calls] == [(3, 128), (4, 128)]
    assert log.flops == 2 * (3 + 4) * 128 * 128
    assert log.seconds() > 0
    assert len(log.calls) == 2


def test_a_stopwatch_counts_no_second_twice() -> None:
    class Nested:
        def outer(self) -> int:
            return self.inner()

        def inner(self) -> int:
            return int(np.ones(1000).sum())

    watch = Stopwatch()
    watch.watch(Nested, "outer")
    watch.watch(Nested, "inner")
    assert Nested().outer() == 1000
    once = watch.seconds
    assert once > 0
    assert Nested().inner() == 1000
    assert watch.seconds > once
