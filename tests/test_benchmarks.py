"""Rows of the benchmark are measured, with a tiny model and little text."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from benchmarks import gpu, host, measure, probabilities, setting, start
from benchmarks.measure_embed import Stopwatch
from benchmarks.process import median


@pytest.mark.long
def test_rows_are_measured_in_tokens_per_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "result.json"
    small = ("--tiny", "--lines=5", "--repeats=1")
    measure.main([*small, f"--json={output}", "--rows", "speed", "training"])
    content = json.loads(output.read_text())
    assert content["machine"]["torch"] == torch.__version__
    rows = [setting.Row(**row) for row in content["rows"]]
    printed = capsys.readouterr().out
    for row in rows:
        assert f"| {row.what} | {row.target} | {row.measured} |" in printed
    assert "`elmo train --preset mini`, bfloat16" in {row.what for row in rows}
    speed = next(row for row in rows if row.what.startswith("CPU, float32"))
    (turn,) = speed.figures["ours"]
    n_tokens = sum(
        len(line.split()) for line in setting.ALICE.read_text().splitlines()[:5]
    )
    assert turn["tokens"] == n_tokens
    assert turn["tokens_per_second"] == pytest.approx(n_tokens / turn["embed_seconds"])
    assert 0 < turn["files_seconds"] < turn["embed_seconds"]


@pytest.mark.long
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
    speed = median(writing.figures["turns"], "tokens_per_second")
    assert writing.measured.startswith(f"{speed:,.0f}")


def test_rows_of_probabilities_have_small_errors(tmp_path: Path) -> None:
    tiny = setting.Setting(tmp_path, tmp_path, tmp_path, [], repeats=1)
    for row in probabilities.probabilities_rows(tiny, 20, 60):
        assert "not measured" in row.measured or "times torch, error " in row.measured


@pytest.mark.long
def test_the_host_is_measured_without_a_bilm(tmp_path: Path) -> None:
    tiny = setting.make_model(tmp_path / "tiny", setting.TINY)
    rows = host.host_rows(
        setting.Setting(tmp_path, tiny, tiny, ["a b c", "d"], repeats=1)
    )
    assert [row.what for row in rows] == [f"host, {what}" for what in host.KINDS]
    assert all(time > 0 for row in rows for time in row.figures["microseconds"])
    with h5py.File(tmp_path / "host.h5") as file:
        assert file["activations"].shape == (4 * gpu.COPIES, 8)


@pytest.mark.long
def test_the_start_is_compared_with_another_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "TURNS", 1)
    tiny = setting.make_model(tmp_path / "tiny", setting.TINY)
    (row,) = start.start_rows(
        setting.Setting(
            tmp_path, tiny, tiny, ["a b c"], repeats=1, before=setting.HERE.parent
        )
    )
    (ratio,) = row.figures["ratios"]
    assert f"{ratio:.0%} of the earlier version's" in row.measured
    (turn,) = row.figures["turns"]
    assert turn.wall > 0
    assert turn.processor > 0


def test_a_stopwatch_counts_no_second_twice() -> None:
    class Nested:
        def outer(self) -> int:
            return self.inner()

        def inner(self) -> int:
            return int(np.ones(1000).sum())

    watch = Stopwatch()
    watch.time(Nested, "outer")
    watch.time(Nested, "inner")
    assert Nested().outer() == 1000
    once = watch.seconds
    assert once > 0
    assert Nested().inner() == 1000
    assert watch.seconds > once
