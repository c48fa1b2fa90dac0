"""The vectors of a sentence's tokens to one vector."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

POOLINGS = ("mean", "max", "first", "last")


def pool(values: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """Pool the tokens of each sentence, all sentences of a batch at once.

    Args:
        values: float, shape (N, W) or (n, N, W), sentence after sentence.
        lengths: the tokens of each of B sentences, none 0, N together.
        pooling: the `mean` or the largest values (`max`) of the tokens, or the `first`
            or `last` token. Boundaries are not among the tokens.

    Returns:
        float, shape (B, W) or (n, B, W).
    """
    counts = torch.tensor(lengths, dtype=torch.int64, device=values.device)  # (B,)
    ends = counts.cumsum(0)
    if pooling == "first":
        return values[..., ends - counts, :]
    if pooling == "last":
        return values[..., ends - 1, :]
    # The vectors are a table, and a sentence a bag of its rows: 2 to 100 times faster than
    # torch.segment_reduce on the CPU, and likewise no sum depends on another sentence.
    table = values.reshape(-1, values.shape[-1])  # (n N, W)
    layers = torch.arange(len(table) // sum(lengths), device=values.device)
    starts = layers[:, None] * sum(lengths) + ends - counts  # (n, B)
    rows = torch.arange(len(table), device=values.device)
    pooled = functional.embedding_bag(rows, table, starts.flatten(), mode=pooling)
    return pooled.reshape(*values.shape[:-2], len(lengths), -1)
