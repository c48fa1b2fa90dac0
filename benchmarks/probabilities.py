"""Speed and error of log probabilities over a vocabulary, compared with torch's own."""

import math
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.setting import Row, Setting
from elmo_cli.inference.precision import softmax_type
from elmo_cli.language_model.softmax import (
    PREDICTIONS_PER_PIECE,
    WORDS_PER_READ,
    FullSoftmax,
)
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.language_model.softmax_kernels import softmax_kernel
from elmo_cli.options.model import Precision

CPU = torch.device("cpu")
DIM = 512
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
TIMES = {torch.float32: 1.35, torch.bfloat16: 6.0, torch.int16: 2.1}
"""Targets, in times the speed of torch in float32."""
BITS = {torch.float32: 2e-5, torch.bfloat16: 0.15, torch.int16: 0.02}
"""Largest allowed error of a log probability."""


def probabilities_rows(
    setting: Setting, n_predictions: int = 4096, n_words: int = 25_000
) -> list[Row]:
    """Compare the precisions with torch, taking turns, with random weights."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(n_words, DIM, generator=generator) / 10
    bias = torch.randn(n_words, generator=generator)
    contexts = torch.randn(n_predictions, DIM, generator=generator)
    targets = torch.randint(n_words, (n_predictions,), generator=generator)
    path = setting.folder / "softmax.hdf5"
    write_softmax(path, weight.numpy(), bias.numpy())
    runs: dict[str, Callable[[], Tensor]] = {
        "torch": partial(by_torch, contexts, targets, weight, bias)
    }
    for precision in PRECISIONS:
        softmax = FullSoftmax(path, n_words, DIM, CPU, precision)
        runs[precision] = partial(softmax.of_targets, contexts, targets)
    few = slice(0, 500)
    exact = by_torch(
        contexts[few].double(), targets[few], weight.double(), bias.double()
    )
    errors = {}
    for name, run in runs.items():
        difference = run().flatten()[few] - exact
        errors[name] = float(difference.abs().max()) / math.log(2)
    turns = []
    for _ in range(3 * setting.repeats):
        turns.append({name: seconds(run) for name, run in runs.items()})
    what = f"{n_predictions:,} predictions of {n_words:,} words"
    rows = []
    for precision in PRECISIONS:
        dtype = softmax_type(precision, CPU)
        target = TIMES[dtype]
        title = f"CPU, {what}, {precision} ({dtype})".replace("torch.", "")
        aim = f"{target:g} times torch in float32, error at most {BITS[dtype]:g} bits"
        if softmax_kernel(dtype) is None:
            rows.append(Row(title, aim, "not measured: no kernels for it"))
            continue
        times = statistics.median(turn["torch"] / turn[precision] for turn in turns)
        measured = f"{times:.1f} times torch, error {errors[precision]:.1g} bits"
        met = times >= target and errors[precision] <= BITS[dtype]
        rows.append(Row(title, aim, measured, met=met, figures={"turns": turns}))
    return rows


def seconds(run: Callable[[], Tensor]) -> float:
    """Return the wall time of a function."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def by_torch(contexts: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the log probabilities of targets by torch, shape (N,), in pieces."""
    results = []
    for first in range(0, len(contexts), PREDICTIONS_PER_PIECE):
        rows = contexts[first : first + PREDICTIONS_PER_PIECE]
        columns = targets[first : first + PREDICTIONS_PER_PIECE]
        sums = []
        for start in range(0, len(weight), WORDS_PER_READ):
            part = slice(start, start + WORDS_PER_READ)
            logits = functional.linear(rows, weight[part], bias[part])
            sums.append(logits.logsumexp(dim=1))
        target_logits = (rows * weight[columns]).sum(dim=1) + bias[columns]
        results.append(target_logits - torch.stack(sums).logsumexp(dim=0))
    return torch.cat(results)
