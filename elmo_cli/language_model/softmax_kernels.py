"""Log probabilities in C, where the logits stay in the cache.

The kernels are for float32, for int16 with VNNI or AVX2, and for bfloat16 with AMX. The
bits of a prediction depend neither on others nor on the number of threads.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled import kernels
from elmo_cli.compiled.integer_linear import IntegerLinear, RowMemory
from elmo_cli.compiled.linear import Linear, product_kernel
from elmo_cli.compiled.structures import NO_SCALES, RoundedWords, Words, address


class LogitLayer(NamedTuple):
    """Linear layer that turns contexts into the logits of R consecutive words."""

    first: int
    """Index of the first word in the vocabulary."""
    multiply: Linear
    """Layer with the vectors of the words. It adds the bias in float32 only."""
    bias: Tensor
    """float32, shape (R,)."""


def softmax_kernel(dtype: torch.dtype, name: str = "probabilities") -> str | None:
    """Return the name of the function in C for values of a data type, or None.

    `name` is `probabilities` or `logits`.
    """
    kernel = f"{name}_{dtype}"
    if dtype == torch.int16 and product_kernel(dtype) is None:
        return None
    if dtype == torch.bfloat16:
        if not kernels.has_tiles():
            return None
        kernel = f"{kernel}_tiles"
    return kernel if kernels.has_kernel(kernel) else None


def log_probabilities(
    layers: Iterable[LogitLayer],
    contexts: Tensor,
    targets: Tensor,
    rows: Tensor,
    dtype: torch.dtype,
    *,
    with_entropy: bool = False,
) -> Tensor:
    """Compute log probabilities as `FullSoftmax.of_targets` does, in C."""
    kernel = softmax_kernel(dtype)
    assert kernel is not None
    n = len(contexts)
    factors = _prepare(contexts, dtype)
    # C wants the targets of one context after those of another.
    order = rows.argsort(stable=True)
    ordered_targets = targets[order]
    first_targets = torch.zeros(n + 1, dtype=torch.int64, device="cpu")
    first_targets[1:] = rows.bincount(minlength=n).cumsum(dim=0)
    target_logits = torch.empty(len(targets), device="cpu")
    # Per context: reference, sum of exponentials, and sum of logits times them.
    sums = torch.zeros(n, 3, dtype=torch.float64, device="cpu")
    sums[:, 0] = -1e30
    chunk = kernels.read_constant("probabilities_chunk")
    for first, layer, bias in layers:
        n_chunks = math.ceil(len(bias) / chunk)
        n_units = layer.weight.shape[1]
        totals = torch.empty(n_chunks, n, 3, device="cpu")
        rounded = None
        units = factors
        scales = NO_SCALES
        if isinstance(layer, IntegerLinear):
            rounded = RowMemory(factors, n_units)
            units = rounded.units
            scales = layer.scales(rounded.scales)
        words = Words(
            n=n,
            n_units=n_units,
            first_word=first,
            n_words=len(bias),
            contexts=address(units, units.dtype),
            weights=address(layer.weight, dtype),
            bias=address(bias, torch.float32),
            first_targets=address(first_targets, torch.int64),
            targets=address(ordered_targets, torch.int64),
            with_mean=int(with_entropy),
            totals=address(totals, torch.float32),
            sums=address(sums, torch.float64),
            target_logits=address(target_logits, torch.float32),
            logits=None,
            scales=scales,
        )
        if rounded is None:
            kernels.run_kernel(kernel, words)
        else:
            arguments = RoundedWords(rows=rounded.arguments(), words=words)
            kernels.run_kernel(kernel, arguments)
    reference, total, mean = sums.t()[:, rows]
    of_targets = torch.empty_like(reference)
    of_targets[order] = target_logits.double()
    bits = [of_targets - reference - total.log2()]
    if with_entropy:
        bits.append(total.log2() - mean / total)
    return torch.stack(bits) * math.log(2)


def bfloat16_logits(contexts: Tensor, layer: LogitLayer) -> Tensor:
    """Multiply contexts, (N, P), to logits, float32, (N, R), in bfloat16."""
    kernel = softmax_kernel(torch.bfloat16, "logits")
    assert kernel is not None
    weight = layer.multiply.weight
    n_words = len(layer.bias)
    logits = torch.empty(len(contexts), n_words, device="cpu")
    factors = _prepare(contexts, torch.bfloat16)
    arguments = Words(
        n=len(contexts),
        n_units=weight.shape[1],
        first_word=0,
        n_words=n_words,
        contexts=address(factors, torch.bfloat16),
        weights=address(weight, torch.bfloat16),
        bias=address(layer.bias, torch.float32),
        first_targets=None,
        targets=None,
        with_mean=0,
        totals=None,
        sums=None,
        target_logits=None,
        logits=address(logits, torch.float32),
        scales=NO_SCALES,
    )
    kernels.run_kernel(kernel, arguments)
    return logits


def int16_logits(contexts: Tensor, layer: LogitLayer) -> Tensor:
    """Multiply contexts, (N, P), to logits, float32, (N, R), in int16.

    Contexts are rounded in bits, as for `log_probabilities`.
    """
    bits = layer.multiply(_prepare(contexts, torch.int16))
    return bits.mul_(math.log(2)).add_(layer.bias)


def _prepare(contexts: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply contexts by log2(e), because C computes powers of 2.

    They stay in float32 for int16. In bfloat16, put them into tiles: (N / t, units / t,
    t, t).
    """
    contexts = contexts * math.log2(math.e)
    if dtype != torch.bfloat16:
        return contexts.contiguous()
    contexts = contexts.to(dtype)
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
