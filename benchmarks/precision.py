"""Speed and error of lower precisions, if the processor has instructions for them."""

import statistics
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.process import Figures, in_turns, median, ratios
from benchmarks.setting import Row, Setting
from elmo_cli.compiled.linear import product_kernel
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import AS_INT16, ROUNDED, find_arithmetic
from elmo_cli.options.model import Precision


class Target(NamedTuple):
    """Speed and error that a precision has to reach."""

    times: float
    other: str
    """Precision or program that it is compared with."""
    error: float
    """Largest allowed error of each layer."""


MISSING = "not measured: the processor lacks the instructions"
PEER = "AllenNLP"
EXACT = "float32"
MODULE_TARGET = 1.5
"""Speed of a frozen `Elmo` in a lower precision, in terms of float32's."""
PRECISIONS: tuple[Precision, ...] = ("bfloat16", "int8")
TARGETS = {
    "bfloat16": Target(20, PEER, 0.01),
    AS_INT16: Target(1.45, EXACT, 0.002),
    ROUNDED: Target(0.9, EXACT, 0.01),
    "int8": Target(1.6, EXACT, 0.02),
}
"""Targets by the arithmetic of this processor."""


def precision_rows(setting: Setting) -> list[Row]:
    """Compare bfloat16 and int8 with float32 and AllenNLP, in turns."""
    measured = _available()
    turns = _take_turns(setting, measured)
    rows = []
    for precision in PRECISIONS:
        arithmetic = find_arithmetic(precision, CPU)
        target = TARGETS[arithmetic]
        what = f"CPU, {arithmetic}, all layers to HDF5"
        speed = f"{target.times:g} times {target.other}"
        aim = f"{speed}, error of each layer at most {target.error:.1%}"
        if precision not in measured:
            rows.append(Row(what, aim, MISSING))
            continue
        errors = layer_errors(
            low=_output(setting, precision), exact=_output(setting, EXACT)
        )
        times = {}
        for other in (EXACT, PEER):
            if other in turns:
                times[other] = ratios(turns[precision], turns[other])
        medians = {other: statistics.median(each) for other, each in times.items()}
        measurement = f"{median(turns[precision], 'tokens_per_second'):,.0f} tokens/s"
        for other, value in medians.items():
            measurement += f", {value:.1f} times {other}"
        measurement += ", error " + ", ".join(f"{error:.1%}" for error in errors)
        met = None
        if target.other in medians:
            is_fast = medians[target.other] >= target.times
            met = is_fast and max(errors) <= target.error
        figures = {"turns": turns, "ratios": times, "errors": errors}
        rows.append(Row(what, aim, measurement, met=met, figures=figures))
    return rows


def frozen_module_rows(setting: Setting) -> list[Row]:
    """Compare a frozen `Elmo` in bfloat16 and int8 with float32, in turns."""
    # With rounded weights, it computes in float32.
    measured = [each for each in _available() if find_arithmetic(each, CPU) != ROUNDED]
    text = setting.write("batches.txt", setting.lines)
    commands = {}
    for precision in (EXACT, *measured):
        commands[precision] = setting.ours(
            "measure_module.py", setting.model, f"--precision={precision}", text
        )
    turns = in_turns(commands, setting.repeats) if measured else {}
    rows = []
    for precision in PRECISIONS:
        what = f"`Elmo`, frozen, in training, {find_arithmetic(precision, CPU)}"
        aim = f"{MODULE_TARGET} times {EXACT}"
        if precision not in measured:
            rows.append(Row(what, aim, MISSING))
            continue
        times = ratios(turns[precision], turns[EXACT])
        middle = statistics.median(times)
        measurement = (
            f"{median(turns[precision], 'tokens_per_second'):,.0f} tokens/s, "
            f"{EXACT} {median(turns[EXACT], 'tokens_per_second'):,.0f}: "
            f"{middle:.2f} times"
        )
        rows.append(
            Row(
                what,
                aim,
                measurement,
                met=middle >= MODULE_TARGET,
                figures={"turns": turns, "ratios": times},
            )
        )
    return rows


def _available() -> list[Precision]:
    """Return the lower precisions that this processor computes."""
    if product_kernel(torch.int8) is None:
        return ["bfloat16"]
    return ["bfloat16", "int8"]


def _take_turns(
    setting: Setting, measured: list[Precision]
) -> dict[str, list[Figures]]:
    """Measure these precisions, float32, and AllenNLP if it is installed."""
    text = setting.write("input.txt", setting.lines)
    commands = {}
    for precision in (EXACT, *measured):
        commands[precision] = setting.ours(
            "measure_embed.py",
            setting.model,
            f"--precision={precision}",
            text,
            _output(setting, precision),
        )
    if setting.peer:
        commands[PEER] = setting.theirs("--all", text, _output(setting, PEER))
    return in_turns(commands, setting.repeats)


def _output(setting: Setting, name: str) -> Path:
    return setting.folder / f"{name}.hdf5"


def layer_errors(low: Path, exact: Path) -> list[float]:
    """Compute the relative error of each layer over all lines (Frobenius norm)."""
    with h5py.File(low) as low_file, h5py.File(exact) as expected:
        keys = [key for key in expected if key.isdigit()]

        def layers(file: h5py.File) -> NDArray[np.float32]:
            return np.concatenate([file[key][:] for key in keys], axis=1)  # (L, N, W)

        exact_layers = layers(expected)
        difference = layers(low_file) - exact_layers
    return [
        float(np.linalg.norm(one) / np.linalg.norm(other))
        for one, other in zip(difference, exact_layers, strict=True)
    ]
