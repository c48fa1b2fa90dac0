"""Lower precision, where the processor has instructions for it: speed and error."""

import statistics
from pathlib import Path

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from process import Figures, figures_of, median
from setting import Row, Setting

from elmo_cli.arithmetic import arithmetic_of
from elmo_cli.errors import InputError

BFLOAT16_TARGET, INT8_TARGET = 20.0, 1.3
ERROR_TARGETS = {"bfloat16": 0.01, "int8": 0.02}


def precision_rows(setting: Setting) -> list[Row]:
    """bfloat16 and int8 beside float32 and AllenNLP, which take turns."""
    text, folder = setting.write("input.txt", setting.lines), setting.folder
    available = [precision for precision in ERROR_TARGETS if _is_available(precision)]
    turns: dict[str, list[Figures]] = {name: [] for name in ("float32", *available, "peer")}
    for _ in range(setting.repeats if available else 0):
        for precision in ("float32", *available):
            output = folder / f"{precision}.hdf5"
            options = f"--precision={precision}", text, output
            command = setting.ours("measure_embed.py", setting.model, *options)
            turns[precision].append(figures_of(command))
        if setting.peer:
            command = setting.theirs("embed", "--all", text, folder / "peer.hdf5")
            turns["peer"].append(figures_of(command))
    rows = []
    for precision, most in ERROR_TARGETS.items():
        what = f"CPU, {precision}, all layers to HDF5"
        least = f"{BFLOAT16_TARGET:.0f} times AllenNLP"
        if precision == "int8":
            least = f"{INT8_TARGET} times float32"
        target = f"{least}, error of each layer at most {most:.0%}"
        if precision in available:
            errors = layer_errors(folder / f"{precision}.hdf5", folder / "float32.hdf5")
            rows.append(_row(what, target, turns, precision, errors))
        else:
            missing = "not measured: the processor has no such instructions"
            rows.append(Row(what, target, missing))
    return rows


def _is_available(precision: str) -> bool:
    """Whether the processor has instructions for it."""
    if precision == "bfloat16":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    try:
        return arithmetic_of("int8", torch.device("cpu")).gates_are_int8
    except InputError:
        return False


def _row(
    what: str, target: str, turns: dict[str, list[Figures]], precision: str, errors: list[float]
) -> Row:
    ratios = {other: _ratios(turns[precision], turns[other]) for other in ("float32", "peer")}
    names = {"float32": "float32", "peer": "AllenNLP"}
    found = f"{median(turns[precision], 'tokens_per_second'):,.0f} tokens/s"
    for other, values in ratios.items():
        if values:
            found += f", {statistics.median(values):.1f} times {names[other]}"
    found += ", error " + ", ".join(f"{error:.1%}" for error in errors)
    least, other = (INT8_TARGET, "float32") if precision == "int8" else (BFLOAT16_TARGET, "peer")
    met = None
    if ratios[other]:
        met = statistics.median(ratios[other]) >= least and max(errors) <= ERROR_TARGETS[precision]
    figures = {"turns": turns, "ratios": ratios, "errors": errors}
    return Row(what, target, found, met, figures)


def _ratios(turns: list[Figures], others: list[Figures]) -> list[float]:
    """How many times as fast, turn by turn."""
    return [
        turn["tokens_per_second"] / other["tokens_per_second"]
        for turn, other in zip(turns, others, strict=False)
    ]


def layer_errors(low: Path, exact: Path) -> list[float]:
    """The relative error of each layer over all lines, in the Frobenius norm."""
    with h5py.File(low) as found, h5py.File(exact) as expected:
        keys = [key for key in expected if key.isdigit()]

        def layers(file: h5py.File) -> NDArray[np.float32]:
            return np.concatenate([file[key][:] for key in keys], axis=1)  # (L, N, W)

        exact_layers = layers(expected)
        difference = layers(found) - exact_layers
    return [
        float(np.linalg.norm(one) / np.linalg.norm(other))
        for one, other in zip(difference, exact_layers, strict=True)
    ]
