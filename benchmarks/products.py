"""The matrix products of a run, and how long they take by themselves.

A convolution is a matrix product too: of its windows with its filters.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from elmo_cli import inference
from elmo_cli.directions import BACKWARD, FORWARD, run_both
from elmo_cli.products import OneDnnProduct, Product, SingleRowProduct
from elmo_cli.token_encoder import Convolution

Call = tuple[Callable[[Tensor], Tensor], tuple[int, ...]]
"""What multiplies, and the shape of what it is given."""

TOKENS = -1
"""Where the products of the token encoder are kept, beside those of both directions."""


class ProductLog:
    """Keeps the products that are made, in their order, from when it is made."""

    def __init__(self) -> None:
        self.calls: dict[int, list[Call]] = {TOKENS: [], FORWARD: [], BACKWARD: []}
        self.flops = 0.0
        """Multiplications and additions of all products."""
        self._thread = threading.local()
        self._lock = threading.Lock()
        methods: list[tuple[type[Any], str, Any]] = [
            (Product, "__call__", Product.__call__),
            (OneDnnProduct, "_multiply", OneDnnProduct._multiply),
            (SingleRowProduct, "__call__", SingleRowProduct.__call__),
            (Convolution, "multiply", Convolution.multiply),
        ]
        for owner, name, plain in methods:
            self._watch(owner, name, plain)
        setattr(inference, "run_both", self._run_both)  # noqa: B010  (a name that is imported there)

    def _watch(self, owner: type[Any], name: str, plain: Any) -> None:
        original: Callable[..., Tensor] = getattr(owner, name)

        def watched(instance: Any, inputs: Tensor, *rest: Tensor) -> Tensor:
            result = original(instance, inputs, *rest)
            direction = getattr(self._thread, "direction", TOKENS)
            call = (plain.__get__(instance), tuple(inputs.shape))
            with self._lock:
                self.calls[direction].append(call)
                self.flops += 2.0 * inputs.numel() * result.shape[-1]
            return result

        setattr(owner, name, watched)

    def _run_both(self, run: Callable[[int, Callable[[], None]], Any]) -> tuple[Any, Any]:
        def run_known(direction: int, check: Callable[[], None]) -> Any:
            self._thread.direction = direction
            try:
                return run(direction, check)
            finally:
                self._thread.direction = TOKENS

        return run_both(run_known)

    @torch.inference_mode()
    def seconds(self) -> float:
        """How long the same products take, with nothing between them.

        With the same weights in the same order, so that none is in a cache that was not
        there in the run, and both directions beside each other.
        """
        largest = max(_numel(shape) for calls in self.calls.values() for _, shape in calls)
        values = torch.randn(largest)
        started = time.perf_counter()
        self._repeat(TOKENS, values)
        run_both(lambda direction, check: self._repeat(direction, values))
        return time.perf_counter() - started

    @torch.inference_mode()
    def _repeat(self, direction: int, values: Tensor) -> None:
        for multiply, shape in self.calls[direction]:
            multiply(values[: _numel(shape)].view(shape))


def _numel(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()
