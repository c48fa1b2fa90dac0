"""The matrix products of a run, and how long they take by themselves.

A convolution is a matrix product too: of its windows with its filters.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from elmo_cli.products import OneDnnProduct, Product
from elmo_cli.token_encoder import Convolution

Call = tuple[Callable[[Tensor], Tensor], tuple[int, ...]]
"""What multiplies, and the shape of what it is given."""


class ProductLog:
    """Keeps the products that are made, in their order, from when it is made."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.flops = 0.0
        """Multiplications and additions of all products."""
        methods: list[tuple[type[Any], str, Any]] = [
            (Product, "__call__", Product.__call__),
            (OneDnnProduct, "_multiply", OneDnnProduct._multiply),
            (Convolution, "multiply", Convolution.multiply),
        ]
        for owner, name, plain in methods:
            self._watch(owner, name, plain)

    def _watch(self, owner: type[Any], name: str, plain: Any) -> None:
        original: Callable[..., Tensor] = getattr(owner, name)

        def watched(instance: Any, inputs: Tensor, *rest: Tensor) -> Tensor:
            result = original(instance, inputs, *rest)
            self.calls.append((plain.__get__(instance), tuple(inputs.shape)))
            self.flops += 2.0 * inputs.numel() * result.shape[-1]
            return result

        setattr(owner, name, watched)

    @torch.inference_mode()
    def seconds(self) -> float:
        """How long the same products take, with nothing between them.

        With the same weights in the same order, so that none is in a cache that was not
        there in the run.
        """
        largest = max(torch.Size(shape).numel() for _, shape in self.calls)
        values = torch.randn(largest)
        started = time.perf_counter()
        for multiply, shape in self.calls:
            multiply(values[: torch.Size(shape).numel()].view(shape))
        return time.perf_counter() - started
