"""Speed of products in lower precisions, in this process."""

import statistics
import time

import torch
from torch import Tensor

from benchmarks.setting import Row, Setting
from elmo_cli.compiled.integer_linear import round_to_integers
from elmo_cli.compiled.linear import Linear, make_linear, product_kernel

SHAPES = [(512, 16384), (4096, 512), (2048, 2048), (2048, 512)]
"""Inputs and outputs of the gates, the projection, a highway, and the tokens' layer."""
ROWS = [1, 8, 32, 256]
FEW_TARGET = 4.3
"""Speed of int8 with up to 8 rows, in terms of float32."""
MANY_TARGET = 3.0
SECONDS = 0.02
"""Shortest time of a turn."""
EXACT = "float32"
OTHERS = {
    "int8": torch.int8,
    "int16": torch.int16,
    "bfloat16": torch.bfloat16,
}


def product_rows(setting: Setting) -> list[Row]:
    """Compare products in lower precisions with float32, on one thread, in turns."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = []
        for n_inputs, n_outputs in SHAPES:
            layers = _layers(torch.randn(n_outputs, n_inputs))
            speeds = _speeds(layers, n_inputs, setting.repeats)
            for name, by_rows in speeds.items():
                what = f"product {n_inputs} x {n_outputs}, {name}, by number of rows"
                rows.append(_row(what, name, by_rows))
    finally:
        torch.set_num_threads(n_threads)
    return rows


def _layers(weight: Tensor) -> dict[str, Linear]:
    """Return the layers that this processor has kernels for, float32 first."""
    layers = {EXACT: make_linear(weight)}
    for name, dtype in OTHERS.items():
        if product_kernel(dtype) is None:
            continue
        if dtype.is_floating_point:
            layers[name] = make_linear(weight.to(dtype))
        else:
            layers[name] = round_to_integers(weight, None, dtype)
    return layers


def _speeds(
    layers: dict[str, Linear], n_inputs: int, repeats: int
) -> dict[str, dict[int, list[float]]]:
    """Return the speed of each layer in terms of float32's, by number of rows."""
    speeds: dict[str, dict[int, list[float]]] = {}
    for name in layers:
        if name != EXACT:
            speeds[name] = {n: [] for n in ROWS}
    for n in ROWS:
        inputs = torch.randn(n, n_inputs)
        for _ in range(repeats):
            exact = _seconds(layers[EXACT], inputs)
            for name, by_rows in speeds.items():
                rows = inputs.bfloat16() if name == "bfloat16" else inputs
                by_rows[n].append(exact / _seconds(layers[name], rows))
    return speeds


def _row(what: str, name: str, by_rows: dict[int, list[float]]) -> Row:
    medians = {n: statistics.median(each) for n, each in by_rows.items()}
    measured = ", ".join(f"{n}: {value:.2f}" for n, value in medians.items())
    figures = {"ratios": by_rows}
    if name != "int8":
        return Row(what, "", measured, figures=figures)
    target = f"{FEW_TARGET} times {EXACT} up to 8 rows, then {MANY_TARGET}"
    met = True
    for n, value in medians.items():
        least = FEW_TARGET if n <= 8 else MANY_TARGET
        met = met and value >= least
    return Row(what, target, measured, met=met, figures=figures)


def _seconds(layer: Linear, inputs: Tensor) -> float:
    """Return the processor time of one product."""
    workspace = inputs.new_empty(len(inputs), layer.n_outputs)
    n_done = 0
    started = time.thread_time()
    while time.thread_time() - started < SECONDS:
        layer(inputs, workspace)
        n_done += 1
    return (time.thread_time() - started) / n_done
