"""Speed on a GPU, compared with AllenNLP's there and with a plain write."""

import os
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.process import figures_of, median
from benchmarks.setting import Row, Setting
from benchmarks.speed import measure_with_allennlp, speed_row

COPIES = 10
"""Copies of the text, each line in other orders. Less text would be too quick."""
SPEED_TARGET = 100
WRITE_TARGET = 0.8
AVERAGE = "GPU, the average of the layers in float16 to HDF5"
WRITING = "GPU, all layers in float32 to HDF5"
WRITING_AIM = f"{WRITE_TARGET:.0%} of a plain write's bytes a second"
BLOCK_BYTES = 1 << 23


def gpu_rows(setting: Setting) -> list[Row]:
    """Measure the rows of the first GPU."""
    if torch.cuda.is_available():
        return device_rows(setting, 0)
    missing = "not measured: no GPU"
    return [
        Row(AVERAGE, f"{SPEED_TARGET} times AllenNLP", missing),
        Row(WRITING, WRITING_AIM, missing),
    ]


def device_rows(setting: Setting, device: int) -> list[Row]:
    """Measure the rows of a GPU, by its number."""
    text = setting.write("shuffled.txt", shuffled(setting.lines))
    cuda = f"--cuda={device}"
    return [_average_row(setting, cuda, text), _writing_row(setting, cuda, text)]


def _average_row(setting: Setting, cuda: str, text: Path) -> Row:
    """Compare averages in float16 with AllenNLP's in float32."""
    ours, peers = measure_with_allennlp(
        setting,
        setting.ours(
            "measure_embed.py",
            setting.model,
            cuda,
            "--layers=average",
            "--dtype=float16",
            text,
            setting.folder / "average.hdf5",
        ),
        setting.theirs("--average", cuda, text, setting.folder / "peer.hdf5"),
    )
    return speed_row(AVERAGE, SPEED_TARGET, ours, peers)


def _writing_row(setting: Setting, cuda: str, text: Path) -> Row:
    """Compare embedding of all layers in float32 with a plain write of that size."""
    output = setting.folder / "all.hdf5"
    command = setting.ours("measure_embed.py", setting.model, cuda, text, output)
    turns = []
    shares = []
    for _ in range(setting.repeats):
        figures = figures_of(command)
        n_bytes = output.stat().st_size
        output.unlink()
        turns.append(figures)
        shares.append(write_seconds(output, n_bytes) / figures["embed_seconds"])
        output.unlink()
    share = statistics.median(shares)
    measured = f"{median(turns, 'tokens_per_second'):,.0f} tokens/s, {share:.0%}"
    return Row(
        WRITING,
        WRITING_AIM,
        measured,
        met=share >= WRITE_TARGET,
        figures={"turns": turns, "shares": shares},
    )


def shuffled(lines: Sequence[str]) -> list[str]:
    """Repeat the lines `COPIES` times, each with its tokens in another order."""
    generator = random.Random(0)
    tokens = [line.split() for line in lines] * COPIES
    return [" ".join(generator.sample(line, len(line))) for line in tokens]


def write_seconds(path: Path, n_bytes: int) -> float:
    """Return the seconds it takes to write a file of `n_bytes` bytes to the disk."""
    block = os.urandom(BLOCK_BYTES)
    started = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for position in range(0, n_bytes, BLOCK_BYTES):
            file.write(block[: n_bytes - position])
        os.fsync(file.fileno())
    return time.perf_counter() - started
