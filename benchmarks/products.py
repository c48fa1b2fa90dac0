"""The matrix products of a run, and how long they take by themselves.

A convolution is a matrix product too: of its windows with its filters.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from elmo_cli.inference.cells import TableRows
from elmo_cli.inference.int8_product import Int8Product
from elmo_cli.inference.linear import CompiledProduct, OneDnnProduct, Product
from elmo_cli.inference.recurrence import CompiledRecurrence
from elmo_cli.model.token_encoder import Convolution

Call = tuple[Callable[[Tensor], Any], tuple[int, ...], torch.dtype]
"""What multiplies, and the shape and type of what it is given."""


class ProductLog:
    """Keeps the products that are made, in their order, from when it is made."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.flops = 0.0
        """Multiplications and additions of all products."""
        methods: list[tuple[type[Any], str, Any]] = [
            (Product, "__call__", Product.__call__),
            (OneDnnProduct, "_multiply", OneDnnProduct._multiply),
            (Int8Product, "_multiply", Int8Product._multiply),
            (Convolution, "multiply", Convolution.multiply),
        ]
        for owner, name, plain in methods:
            self._watch(owner, name, plain)
        self._watch_compiled()

    def _watch(self, owner: type[Any], name: str, plain: Any) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(instance: Any, inputs: Tensor, *rest: Tensor) -> Any:
            result = original(instance, inputs, *rest)
            self.calls.append((plain.__get__(instance), tuple(inputs.shape), inputs.dtype))
            rows = result[0] if isinstance(result, tuple) else result  # those in int8 have scales
            self.flops += 2.0 * inputs.numel() * rows.shape[-1]
            return result

        setattr(owner, name, watched)

    def _watch_compiled(self) -> None:
        """Those in C are made again in memory that stays; one of them is a part of a step."""
        multiply_into, take_step = CompiledProduct.multiply_into, CompiledRecurrence.take_step
        rooms: dict[torch.dtype, Tensor] = {}

        def multiply(product: CompiledProduct, inputs: Tensor) -> None:
            n_outputs = product.BLOCK * product.weight.shape[0]
            room = rooms.setdefault(inputs.dtype, inputs.new_empty(0))
            if room.numel() < len(inputs) * n_outputs:
                room = rooms[inputs.dtype] = inputs.new_empty(len(inputs) * n_outputs)
            out = room[: len(inputs) * n_outputs].view(-1, n_outputs)
            multiply_into(product, out, inputs)

        def add(product: CompiledProduct, inputs: Tensor) -> None:
            self.calls.append((partial(multiply, product), tuple(inputs.shape), inputs.dtype))
            self.flops += 2.0 * len(inputs) * product.weight.numel()

        def watched_product(product: CompiledProduct, out: Tensor, inputs: Tensor) -> None:
            multiply_into(product, out, inputs)
            add(product, inputs)

        def watched_step(
            recurrence: CompiledRecurrence, gates: TableRows, hidden: TableRows, *rest: Any
        ) -> None:
            take_step(recurrence, gates, hidden, *rest)
            add(recurrence.from_hidden, hidden.table)

        setattr(CompiledProduct, "multiply_into", watched_product)  # noqa: B010
        setattr(CompiledRecurrence, "take_step", watched_step)  # noqa: B010

    @torch.inference_mode()
    def seconds(self) -> float:
        """How long the same products take, with nothing between them.

        With the same weights in the same order, so that none is in a cache that was not
        there in the run.
        """
        largest = max(torch.Size(shape).numel() for _, shape, _ in self.calls)
        dtypes = {dtype for *_, dtype in self.calls}
        values = {dtype: torch.randn(largest).to(dtype) for dtype in dtypes}
        started = time.perf_counter()
        for multiply, shape, dtype in self.calls:
            multiply(values[dtype][: torch.Size(shape).numel()].view(shape))
        return time.perf_counter() - started
