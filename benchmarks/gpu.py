"""A GPU, beside AllenNLP on the same one, and beside a plain write of the same bytes."""

import os
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from process import figures_of, median, ratios
from setting import Row, Setting

COPIES = 10
"""Of the text, each line in other orders, or a run would be over too soon."""
SPEED_TARGET, WRITE_TARGET = 100, 0.8
BLOCK_BYTES = 1 << 23


def gpu_rows(setting: Setting) -> list[Row]:
    """The rows of the first GPU."""
    device = 0 if torch.cuda.is_available() else None
    text = setting.write("shuffled.txt", shuffled(setting.lines))
    return [average_row(setting, text, device), writing_row(setting, text, device)]


def average_row(setting: Setting, text: Path, device: int | None) -> Row:
    """Averages in float16 beside AllenNLP's in float32, which take turns."""
    what = "GPU, the average of the layers in float16 to HDF5"
    target = f"{SPEED_TARGET} times AllenNLP"
    if device is None:
        return Row(what, target, "not measured: no GPU")
    cuda, output = f"--cuda={device}", setting.folder / "average.hdf5"
    options = cuda, "--layers=average", "--dtype=float16"
    our_command = setting.ours("measure_embed.py", setting.model, *options, text, output)
    ours, peers = [], []
    for _ in range(setting.repeats):
        ours.append(figures_of(our_command))
        if setting.peer:
            their_output = setting.folder / "their_average.hdf5"
            peers.append(figures_of(setting.theirs("embed", "--average", cuda, text, their_output)))
    found, met, times = f"{median(ours, 'tokens_per_second'):,.0f} tokens/s", None, []
    if peers:
        times = ratios(ours, peers)
        found += f", AllenNLP {median(peers, 'tokens_per_second'):,.0f}: "
        found += f"{statistics.median(times):.1f} times"
        met = statistics.median(times) >= SPEED_TARGET
    return Row(what, target, found, met, {"ours": ours, "peer": peers, "ratios": times})


def writing_row(setting: Setting, text: Path, device: int | None) -> Row:
    """All layers in float32 beside a plain write of a file of that size, which take turns."""
    what = "GPU, all layers in float32 to HDF5"
    target = f"{WRITE_TARGET:.0%} of a plain write's bytes a second"
    if device is None:
        return Row(what, target, "not measured: no GPU")
    output = setting.folder / "all.hdf5"
    command = setting.ours("measure_embed.py", setting.model, f"--cuda={device}", text, output)
    turns, shares = [], []
    for _ in range(setting.repeats):
        turns.append(figures_of(command))
        n_bytes = output.stat().st_size
        output.unlink()
        shares.append(write_seconds(output, n_bytes) / turns[-1]["embed_seconds"])
        output.unlink()
    share = statistics.median(shares)
    found = f"{median(turns, 'tokens_per_second'):,.0f} tokens/s, {share:.0%}"
    return Row(what, target, found, share >= WRITE_TARGET, {"turns": turns, "shares": shares})


def shuffled(lines: Sequence[str]) -> list[str]:
    """The lines `COPIES` times, the tokens of each in an order of its own."""
    generator = random.Random(0)
    tokens = [line.split() for line in lines] * COPIES
    return [" ".join(generator.sample(line, len(line))) for line in tokens]


def write_seconds(path: Path, n_bytes: int) -> float:
    """How long it takes to write a file of so many bytes, until they are on the disk."""
    block = os.urandom(BLOCK_BYTES)
    started = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for position in range(0, n_bytes, BLOCK_BYTES):
            file.write(block[: n_bytes - position])
        os.fsync(file.fileno())
    return time.perf_counter() - started
