"""The matrix products of a run, and how long they take by themselves."""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from elmo_cli.products import OneDnnProduct, Product, product

Shape = tuple[int, int, int]
"""Rows, inputs, outputs."""


class ProductLog:
    """Counts the products that are made, by shape, from when it is made."""

    def __init__(self) -> None:
        self.counts: Counter[Shape] = Counter()
        for owner, name in [
            (Product, "__call__"),
            (OneDnnProduct, "__call__"),
            (OneDnnProduct, "plus"),
            (nn.Linear, "forward"),
        ]:
            self._watch(owner, name)

    def _watch(self, owner: type[Any], name: str) -> None:
        original: Callable[..., Tensor] = getattr(owner, name)

        def watched(instance: Any, inputs: Tensor, *rest: Tensor) -> Tensor:
            result = original(instance, inputs, *rest)
            self.counts[len(inputs), inputs.shape[1], result.shape[1]] += 1
            return result

        setattr(owner, name, watched)

    def flops(self) -> float:
        """Multiplications and additions of all products."""
        return sum(2.0 * rows * i * o * count for (rows, i, o), count in self.counts.items())


@torch.inference_mode()
def bare_seconds(counts: Counter[Shape]) -> float:
    """How long products take with nothing between them, at the median rate of their shapes.

    Rows are rounded up to a power of two, where it is the rate that is measured.
    """
    groups: Counter[Shape] = Counter()
    for (rows, n_inputs, n_outputs), count in counts.items():
        rounded = 1 << (rows - 1).bit_length()
        groups[rounded, n_inputs, n_outputs] += count * rows
    seconds = 0.0
    for (rounded, n_inputs, n_outputs), all_rows in groups.items():
        multiply = product(torch.randn(n_outputs, n_inputs))
        inputs = torch.randn(rounded, n_inputs)
        seconds += all_rows / rounded * _median_seconds(multiply, inputs)
    return seconds


def _median_seconds(multiply: Product, inputs: Tensor) -> float:
    multiply(inputs)
    taken = []
    for _ in range(9):
        started = time.perf_counter()
        multiply(inputs)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
