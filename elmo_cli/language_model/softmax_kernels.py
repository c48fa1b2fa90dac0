"""Softmax in C."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled import kernels
from elmo_cli.compiled.linear import Linear

Words = tuple[int, Linear, Tensor]
"""R consecutive words of a vocabulary: index of the first, a layer that multiplies with their
vectors, and biases, float32, shape (R,)."""


def find_softmax(
    dtype: torch.dtype, name: str = "probabilities"
) -> kernels.Kernel | None:
    """Return a function in C for the softmax that multiplies values of a data type, or None."""
    is_half, float32 = dtype == torch.bfloat16, torch.float32
    if is_half and not kernels.has_tiles():
        return None
    inputs = dtype, dtype, float32, torch.int64  # contexts, weights, biases, targets
    types = int, int, int, int, *inputs, int, float32, torch.float64, float32
    return kernels.find_kernel(
        f"{name}_{dtype}_tiles" if is_half else f"{name}_{dtype}", *types
    )


def log_probabilities(
    vocabulary: Iterable[Words],
    contexts: Tensor,
    targets: Tensor,
    dtype: torch.dtype,
    *,
    with_entropy: bool = False,
) -> Tensor:
    """Compute log probabilities as `FullSoftmax.of_targets`, with layers that were packed."""
    kernel, n = find_softmax(dtype), len(targets)
    assert kernel is not None
    factors, targets = _prepare(contexts, dtype), targets.contiguous()
    # Per prediction: reference, sum of exponentials, sum of logits times them, target's logit.
    sums = torch.zeros(n, 4, dtype=torch.float64, device="cpu")
    sums[:, 0] = -1e30
    for first, words, bias in vocabulary:
        n_chunks = -(-len(bias) // kernels.read_constant("probabilities_chunk"))
        totals = torch.empty(n_chunks, n, 3, device="cpu")
        numbers = n, words.weight.shape[1], first, len(bias)
        kernel(
            *numbers,
            factors,
            words.weight,
            bias,
            targets,
            with_entropy,
            totals,
            sums,
            None,
        )
    reference, total, mean, target = sums.t().contiguous()
    bits = [target - reference - total.log2(), total.log2() - mean / total]
    return torch.stack(bits[: 1 + with_entropy]) * math.log(2)


def bfloat16_logits(contexts: Tensor, words: Linear, bias: Tensor) -> Tensor:
    """Multiply contexts, (N, P), with R packed words to logits, float32, shape (N, R)."""
    kernel = find_softmax(torch.bfloat16, "logits")
    assert kernel is not None
    logits = torch.empty(len(contexts), len(bias), device="cpu")
    numbers = len(contexts), words.weight.shape[1], 0, len(bias)
    factors = _prepare(contexts, torch.bfloat16)
    kernel(*numbers, factors, words.weight, bias, None, 0, None, None, logits)
    return logits


def _prepare(contexts: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply contexts by log2(e). In bfloat16, put them into tiles: (N / t, units / t, t, t)."""
    contexts = (contexts * math.log2(math.e)).to(dtype)
    if dtype == torch.float32:
        return contexts.contiguous()
    tile, (n, dim) = kernels.read_constant("tile"), contexts.shape
    n_rows, n_columns = -(-n // tile), -(-dim // (2 * tile))
    rows = functional.pad(contexts, (0, -dim % (2 * tile), 0, -n % tile))
    # Copies of 8 bytes are faster than copies of 2.
    parts = rows.view(torch.float64).view(n_rows, tile, n_columns, tile // 2)
    return parts.transpose(1, 2).contiguous().view(dtype)
