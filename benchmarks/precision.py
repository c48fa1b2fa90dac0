"""Lower precision, where the processor has instructions for it: speed and error."""

from pathlib import Path

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from process import figures_of
from setting import Row, Setting

SPEED_TARGET, ERROR_TARGET = 20.0, 0.01


def precision_rows(setting: Setting) -> list[Row]:
    """bfloat16 beside float32 and AllenNLP."""
    what = "CPU, bfloat16, all layers to HDF5"
    target = f"{SPEED_TARGET:.0f} times AllenNLP, error of each layer at most {ERROR_TARGET:.0%}"
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return [Row(what, target, "not measured: the processor has no such instructions")]
    text, output = setting.write("input.txt", setting.lines), setting.folder / "exact.hdf5"
    figures_of(setting.ours("measure_embed.py", setting.model, text, output))
    low = setting.folder / "low.hdf5"
    command = setting.ours("measure_embed.py", setting.model, "--precision=bfloat16", text, low)
    ours = figures_of(command)
    errors = layer_errors(low, output)
    found = f"{ours['tokens_per_second']:,.0f} tokens/s"
    met = None
    if setting.peer:
        peer = figures_of(setting.theirs("embed", "--all", text, setting.folder / "peer.hdf5"))
        ratio = ours["tokens_per_second"] / peer["tokens_per_second"]
        found += f", {ratio:.1f} times AllenNLP"
        met = ratio >= SPEED_TARGET and max(errors) <= ERROR_TARGET
    found += ", error " + ", ".join(f"{error:.1%}" for error in errors)
    return [Row(what, target, found, met, {"ours": ours, "errors": errors})]


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
