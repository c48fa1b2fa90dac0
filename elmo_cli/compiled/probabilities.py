"""Softmax over a large vocabulary in C. Logits stay in the cache.

It needs kernels for float32, and AMX for bfloat16. The bits of a prediction do not depend on other
predictions, nor on the number of threads.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import Kernel, Linear, find_kernel, has_tiles, read_constant

_BITS = math.log2(math.e)


def has_probabilities(dtype: torch.dtype) -> bool:
    """Return whether there is a softmax in C that multiplies values of a data type."""
    return _find_kernel("probabilities", dtype) is not None


def _find_kernel(name: str, dtype: torch.dtype) -> Kernel | None:
    is_half, float32 = dtype == torch.bfloat16, torch.float32
    if is_half and not has_tiles():
        return None
    inputs = dtype, dtype, float32, torch.int64  # contexts, weights, bias, targets
    types = int, int, int, int, *inputs, int, float32, torch.float64, float32
    return find_kernel(f"{name}_{dtype}_tiles" if is_half else f"{name}_{dtype}", *types)


class Predictions:
    """Predictions of words, one per context. The words of a vocabulary are added in turns."""

    def __init__(
        self, contexts: Tensor, targets: Tensor, dtype: torch.dtype, *, with_entropy: bool = False
    ) -> None:
        """Take contexts, float32, (N, P), and targets, int64, (N,), to multiply in `dtype`."""
        self._dtype, self._with_entropy = dtype, with_entropy
        self._contexts = _prepare(contexts, dtype)
        self._targets = targets.contiguous()
        # A reference per context, sums of exponentials and of logits, and the logit of the target.
        self._sums = torch.zeros(len(targets), 4, dtype=torch.float64, device="cpu")
        self._sums[:, 0] = -1e30

    def add(self, first: int, words: Linear, bias: Tensor) -> None:
        """Add words from index `first` of the vocabulary, with their biases, float32."""
        n, n_words = len(self._targets), len(bias)
        n_chunks = -(-n_words // read_constant("probabilities_chunk"))
        totals = torch.empty(n_chunks, n, 3, device="cpu")
        kernel = _find_kernel("probabilities", self._dtype)
        assert kernel is not None
        numbers = n, words.weight.shape[1], first, n_words
        inputs = self._contexts, words.weight, bias, self._targets
        kernel(*numbers, *inputs, self._with_entropy, totals, self._sums, None)

    def finish(self) -> Tensor:
        """Return natural logarithms of probabilities, float64, shape (1, N), or with entropies."""
        reference, total, mean, target = self._sums.t().contiguous()
        of_targets = target - reference - total.log2()
        rows = [of_targets, total.log2() - mean / total] if self._with_entropy else [of_targets]
        return torch.stack(rows) * math.log(2)


def bfloat16_logits(contexts: Tensor, words: Linear, bias: Tensor) -> Tensor:
    """Return the logits of words in bfloat16, float32, shape (N, R), for contexts, (N, P)."""
    kernel = _find_kernel("logits", torch.bfloat16)
    assert kernel is not None
    numbers = len(contexts), words.weight.shape[1], 0, len(bias)
    inputs = _prepare(contexts, torch.bfloat16), words.weight, bias, None
    logits = torch.empty(len(contexts), len(bias), device="cpu")
    kernel(*numbers, *inputs, 0, None, None, logits)
    return logits


def _prepare(contexts: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply contexts by log2(e). In bfloat16, put them into tiles: (N / t, units / t, t, t)."""
    contexts = (contexts * _BITS).to(dtype)
    if dtype == torch.float32:
        return contexts.contiguous()
    tile, (n, dim) = read_constant("tile"), contexts.shape
    rows = functional.pad(contexts, (0, -dim % (2 * tile), 0, -n % tile))
    # Copies of 8 bytes are faster than copies of 2.
    parts = rows.view(torch.float64).view(len(rows) // tile, tile, -1, tile // 2)
    return parts.transpose(1, 2).contiguous().view(dtype)
