"""The elementwise part of an LSTM step, in float64."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from elmo_cli.compiled.kernels import has_kernel
from tests.support.reference import Array, sigmoid

_HERE = torch.backends.cpu.get_cpu_capability()
PROCESSORS = (
    ()
    if not has_kernel("step_float32")
    else ("AVX2", "AVX512")
    if _HERE == "AVX512"
    else (_HERE,)
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
    added = sigmoid(i) * np.tanh(j)
    kept = sigmoid(f) * cells
    new = np.clip(added + kept, -clip, clip)
    return new, sigmoid(o) * np.tanh(new)
