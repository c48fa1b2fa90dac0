"""Speed with more threads, and with several processes that divide the cores between them."""

import os
from collections.abc import Sequence

import torch
from process import Figures, figures_together
from setting import Row, Setting

MEMORY_PER_PROCESS = 1.2e9
"""Bytes that one process needs with the original model."""


def core_rows(setting: Setting) -> list[Row]:
    """Measure one process with 1, 2, 4, ... threads, and as many such processes as fit.

    Each process computes on cores of its own. Those that run together embed the same text.
    """
    cores = sorted(os.sched_getaffinity(0))
    precisions = ["float32"]
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        precisions.append("bfloat16")
    return [row for precision in precisions for row in _precision_rows(setting, precision, cores)]


def _precision_rows(setting: Setting, precision: str, cores: Sequence[int]) -> list[Row]:
    numbers = sorted({2**k for k in range(len(cores).bit_length())} | {len(cores)})
    alone: dict[int, float] = {}
    together: dict[int, float] = {}
    rows = []
    for n_threads in numbers:
        figures = [run_together(setting, precision, [cores[:n_threads]])]
        shares = [cores[i : i + n_threads] for i in range(0, len(cores), n_threads)]
        shares = [share for share in shares if len(share) == n_threads]
        fits = len(shares) * MEMORY_PER_PROCESS <= _available_memory()
        if fits and len(shares) > 1:
            figures.append(run_together(setting, precision, shares))
        speeds = [sum(each["tokens_per_second"] for each in runs) for runs in figures]
        alone[n_threads] = speeds[0]
        ratio = speeds[0] / alone[1]
        measured = f"1 process: {speeds[0]:,.0f} tokens/s ({ratio:.2f} times one thread)"
        if not fits:
            measured += f"; {len(shares)} processes: not measured, they do not fit into memory"
        else:
            together[n_threads] = speeds[-1]
            if len(shares) > 1:
                measured += f"; {len(shares)} processes: {speeds[-1]:,.0f} tokens/s"
        what = f"{precision}, threads per process: {n_threads}"
        rows.append(Row(what, "", measured, figures={"alone": alone, "together": together}))
    if together:
        best = max(together, key=lambda n_threads: together[n_threads])
        rows.append(Row(f"{precision}, fastest number of threads per process", "", str(best)))
    return rows


def run_together(
    setting: Setting, precision: str, shares: Sequence[Sequence[int]]
) -> list[Figures]:
    """Run one process on each share of the cores, at the same time. Return their figures."""
    text = setting.write("input.txt", setting.lines)
    commands = []
    for number, share in enumerate(shares):
        output = setting.folder / f"cores{number}.hdf5"
        options = f"--precision={precision}", text, output
        embed = setting.ours("measure_embed.py", setting.model, *options)
        pinned = ["taskset", "--cpu-list", ",".join(map(str, share))]
        commands.append(["env", f"OMP_NUM_THREADS={len(share)}", *pinned, *embed])
    return figures_together(commands)


def _available_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
