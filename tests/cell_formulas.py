"""The elementwise part of an LSTM step, in float64, and what holds for each of its nodes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from reference import Array, sigmoid
from torch import Tensor

from elmo_cli.compiled.kernels import find_kernel

_HERE = torch.backends.cpu.get_cpu_capability()
PROCESSORS = (
    () if not find_kernel("step_float32") else ("AVX2", "AVX512") if _HERE == "AVX512" else (_HERE,)
)
"""The kinds of processor that this one can be taken for; none without kernels."""
WAYS = (*PROCESSORS, "NONE")
"""Processors, and one that has no kernels."""


@contextmanager
def processor(capability: str) -> Iterator[None]:
    """Take the processor for one of a kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        yield


def cells_after(gates: Array, cells: Array, clip: float) -> tuple[Array, Array]:
    """Return new cells, and the inputs of the projection; see Sak et al. (2014)."""
    i, j, f, o = np.split(gates, 4, axis=1)
    new = np.clip(sigmoid(i) * np.tanh(j) + sigmoid(f) * cells, -clip, clip)
    return new, sigmoid(o) * np.tanh(new)


def assert_the_same_alone(run: Callable[[slice], tuple[Tensor, ...]], n: int) -> None:
    """Assert that each of n nodes has the bits it has alone, with any number of threads."""
    alone = [run(slice(i, i + 1)) for i in range(n)]
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 5):
            torch.set_num_threads(n_threads)
            for output, single in zip(run(slice(0, n)), zip(*alone, strict=True), strict=True):
                assert torch.equal(output, torch.cat(single))
    finally:
        torch.set_num_threads(before)
