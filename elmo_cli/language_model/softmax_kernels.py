"""Log probabilities in C, where the logits stay in the cache.

The kernels are for float32, and with AMX for bfloat16. The bits of a prediction depend
neither on others nor on the number of threads.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled import kernels
from elmo_cli.compiled.linear import Linear


class LogitLayer(NamedTuple):
    """Linear layer that turns contexts into the logits of R consecutive words."""

    first: int
    """Index of the first word in the vocabulary."""
    multiply: Linear
    """Layer with the vectors of the words. It adds the bias, except in bfloat16."""
    bias: Tensor
    """float32, shape (R,)."""


def find_softmax(
    dtype: torch.dtype, name: str = "probabilities"
) -> kernels.Kernel | None:
    """Return a function in C that multiplies values of a data type, or None.

    `name` is `probabilities` or `logits`.
    """
    if dtype == torch.bfloat16:
        if not kernels.has_tiles():
            return None
        name = f"{name}_{dtype}_tiles"
    else:
        name = f"{name}_{dtype}"
    return kernels.find_kernel(
        name,
        int,  # number of contexts
        int,  # units of a context
        int,  # index of the first word
        int,  # number of words
        dtype,  # contexts
        dtype,  # weights
        torch.float32,  # biases
        torch.int64,  # targets
        int,  # whether to compute the mean logit, for the entropy
        torch.float32,  # totals of chunks of words
        torch.float64,  # sums of each prediction
        torch.float32,  # logits
    )


def log_probabilities(
    layers: Iterable[LogitLayer],
    contexts: Tensor,
    targets: Tensor,
    dtype: torch.dtype,
    *,
    with_entropy: bool = False,
) -> Tensor:
    """Compute log probabilities as `FullSoftmax.of_targets` does, with packed layers."""
    kernel = find_softmax(dtype)
    assert kernel is not None
    n = len(targets)
    factors = _prepare(contexts, dtype)
    targets = targets.contiguous()
    # Per prediction: reference, sum of exponentials, sum of logits times them, and the
    # logit of the target.
    sums = torch.zeros(n, 4, dtype=torch.float64, device="cpu")
    sums[:, 0] = -1e30
    chunk = kernels.read_constant("probabilities_chunk")
    for first, layer, bias in layers:
        n_chunks = math.ceil(len(bias) / chunk)
        totals = torch.empty(n_chunks, n, 3, device="cpu")
        kernel(
            n,
            layer.weight.shape[1],
            first,
            len(bias),
            factors,
            layer.weight,
            bias,
            targets,
            with_entropy,
            totals,
            sums,
            None,
        )
    reference, total, mean, target = sums.t().contiguous()
    bits = [target - reference - total.log2()]
    if with_entropy:
        bits.append(total.log2() - mean / total)
    return torch.stack(bits) * math.log(2)


def bfloat16_logits(contexts: Tensor, layer: LogitLayer) -> Tensor:
    """Multiply contexts, shape (N, P), to logits, float32, shape (N, R), in bfloat16."""
    kernel = find_softmax(torch.bfloat16, "logits")
    assert kernel is not None
    weight = layer.multiply.weight
    n_words = len(layer.bias)
    logits = torch.empty(len(contexts), n_words, device="cpu")
    kernel(
        len(contexts),
        weight.shape[1],
        0,
        n_words,
        _prepare(contexts, torch.bfloat16),
        weight,
        layer.bias,
        None,
        0,
        None,
        None,
        logits,
    )
    return logits


def _prepare(contexts: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply contexts by log2(e), because C computes powers of 2.

    In bfloat16, put them into tiles: (N / t, units / t, t, t).
    """
    contexts = (contexts * math.log2(math.e)).to(dtype)
    if dtype == torch.float32:
        return contexts.contiguous()
    n, dim = contexts.shape
    tile = kernels.read_constant("tile")
    n_rows = math.ceil(n / tile)
    n_columns = math.ceil(dim / (2 * tile))
    missing_rows = n_rows * tile - n
    missing_columns = n_columns * 2 * tile - dim
    rows = functional.pad(contexts, (0, missing_columns, 0, missing_rows))
    # Copies of 8 bytes are faster than copies of 2.
    parts = rows.view(torch.float64).view(n_rows, tile, n_columns, tile // 2)
    return parts.transpose(1, 2).contiguous().view(dtype)
