"""Inputs of an LSTM to their part of its gates, step after step."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.cells import TableRows
from elmo_cli.inference.linear import PRODUCT_ROWS, Product
from elmo_cli.inference.trie import Trie

TABLE_BYTES = 1 << 26
"""Of the gates of distinct tokens that are held at once, 64 KiB each in the original model and
float32: enough for many steps, and the more steps, the more of their tokens are equal."""


def table_tokens(width: int, dtype: torch.dtype) -> int:
    """The most tokens whose gates, `width` values each, are held at once."""
    return max(1, TABLE_BYTES // (width * dtype.itemsize))


def token_gates(
    from_inputs: Product, vectors: Tensor, trie: Trie, room: Tensor
) -> Iterator[TableRows]:
    """The inputs' part of the gates of each step where inputs are tokens, which repeat.

    Args:
        vectors: of the distinct tokens, float, shape (V, P).
        trie: its tokens are rows of `vectors`.
        room: for tables of up to m tokens, float, shape (m, 4 D). Without rows, tables are as
            large as `TABLE_BYTES` lets them be.
    """
    start, most = 0, room.shape[0] or table_tokens(room.shape[1], room.dtype)
    for group in _groups_by_tokens(trie.tokens, trie.sizes, most):
        end = start + sum(group)
        distinct, places = np.unique(trie.tokens[start:end], return_inverse=True)
        rows = torch.from_numpy(distinct).to(vectors.device)
        table = _multiply(from_inputs, vectors.index_select(0, rows), room)  # (n, 4 D)
        for step in torch.split(torch.from_numpy(places).to(vectors.device), group):
            yield TableRows(table, step)  # (n, 4 D)
        del table
        start = end


def _multiply(from_inputs: Product, inputs: Tensor, room: Tensor) -> Tensor:
    """The product of float, shape (n, P): (n, 4 D), in the room if it is worth it and fits."""
    n = inputs.shape[0]
    if not PRODUCT_ROWS < n <= room.shape[0]:
        return from_inputs(inputs)
    table = room[:n]
    for out, rows in zip(*(torch.split(t, PRODUCT_ROWS) for t in (table, inputs)), strict=True):
        from_inputs.multiply_into(out, rows)
    return table


def _groups_by_tokens(
    tokens: NDArray[np.int64], sizes: Sequence[int], max_tokens: int
) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `max_tokens` distinct tokens, one step at the least."""
    group: list[int] = []
    seen: set[int] = set()
    for step in np.split(tokens, np.cumsum(sizes)[:-1]):
        distinct = set(step.tolist())
        if group and len(seen) + len(distinct - seen) > max_tokens:
            yield group
            group, seen = [], set()
        group.append(len(step))
        seen |= distinct
    yield group


def node_gates(
    from_inputs: Product, inputs: Tensor, sizes: Sequence[int], room: Tensor
) -> Iterator[TableRows]:
    """The same where each node has inputs of its own, float, shape (M, P).

    The room, float, shape (m, 4 D), is used if it has enough rows.
    """
    start = 0
    for group in _groups(sizes, PRODUCT_ROWS):
        n_rows = sum(group)
        # The rows that a product adds may as well be those that follow: they need no copy.
        rows = inputs[start : start + from_inputs.n_rows(n_rows)]
        product = from_inputs.in_room(room, rows)[:n_rows]
        for step in torch.split(product, group):
            yield TableRows(step, None)  # (n, 4 D)
        start += n_rows


def _groups(sizes: Sequence[int], max_rows: int) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `max_rows` rows, one step at the least."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > max_rows:
            yield group
            group = []
        group.append(size)
    if group:
        yield group
