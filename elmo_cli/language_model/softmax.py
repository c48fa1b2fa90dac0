"""Softmax over the whole vocabulary: log probabilities of words in contexts.

A vocabulary has up to 800,000 words, so its vectors and the logits of many predictions
are never in memory together.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from elmo_cli.compiled.integer_linear import round_to_integers
from elmo_cli.compiled.linear import CompiledLinear, make_linear
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.inference.precision import softmax_type
from elmo_cli.language_model.softmax_file import SoftmaxRows, check_softmax, read_rows
from elmo_cli.language_model.softmax_kernels import (
    LogitLayer,
    bfloat16_logits,
    int16_logits,
    log_probabilities,
    softmax_kernel,
)
from elmo_cli.options.model import Precision

WORDS_PER_READ: Final = 8192
"""Number of words that are read together: 16 MiB of vectors of 512 values."""
PREDICTIONS_PER_PIECE: Final = 1024
"""Number of predictions that are computed together: 32 MiB of logits."""
_MAX_LOGITS: Final = 2**23
"""Number of logits of all words that are computed together: 64 MiB."""
_MAX_HELD_BYTES: Final = 2**30
"""Maximum size of a softmax that is read once; a larger one is read for each batch."""


class FullSoftmax:
    """Softmax of a file. Logits are float32, and sums are float64 (on MPS float32).

    `softmax_type` tells in which data type a precision multiplies.
    """

    def __init__(
        self,
        path: Path,
        n_words: int,
        dim: int,
        device: torch.device,
        precision: Precision = "float32",
    ) -> None:
        """Check the file, and load it on a GPU, or if it is not too large."""
        check_softmax(path, n_words, dim)
        self._path = path
        self._n_words = n_words
        self._device = device
        self._sums_dtype = torch.float32 if device.type == "mps" else torch.float64
        self._dtype = softmax_type(precision, device)
        self._held: list[LogitLayer] = []
        n_bytes = self._dtype.itemsize * n_words * dim
        if device.type != "cpu" or n_bytes <= _MAX_HELD_BYTES:
            self._held = list(self._layers())

    @exact_products()
    def of_targets(
        self,
        contexts: Tensor,
        targets: Tensor,
        rows: Tensor | None = None,
        *,
        with_entropy: bool = False,
    ) -> Tensor:
        """Compute the log probabilities of words in contexts.

        The sum over all words is computed once per context.

        Args:
            contexts: M contexts, float, shape (M, P), on the device of the softmax.
            targets: Vocabulary indices of the words, int64, shape (N,), on the CPU.
            rows: Row of each word in the contexts, int64, shape (N,), on the CPU. None
                means that each context has one word.
            with_entropy: Compute the entropies of the distributions over all words too.

        Returns:
            Natural logarithms, float64, shape (1, N), on the CPU. With the entropies as
            the second row, the shape is (2, N).
        """
        contexts = contexts.float()
        if rows is None:
            rows = torch.arange(len(targets), device="cpu")
        if self._device.type == "cpu" and softmax_kernel(self._dtype) is not None:
            return log_probabilities(
                self._layers(),
                contexts,
                targets=targets,
                rows=rows,
                dtype=self._dtype,
                with_entropy=with_entropy,
            )
        return self._by_torch(
            contexts,
            targets=targets.to(self._device),
            rows=rows.to(self._device),
            with_entropy=with_entropy,
        )

    def _by_torch(
        self, contexts: Tensor, targets: Tensor, rows: Tensor, *, with_entropy: bool
    ) -> Tensor:
        sums = _LogitSums(
            len(contexts), self._sums_dtype, self._device, with_means=with_entropy
        )
        target_logits = sums.log_sums.new_zeros(len(targets))
        for first, multiply, bias in self._layers():
            columns = targets - first
            is_in_layer = (columns >= 0) & (columns < len(bias))
            for start in range(0, len(contexts), PREDICTIONS_PER_PIECE):
                piece = slice(start, start + PREDICTIONS_PER_PIECE)
                logits = multiply(contexts[piece])  # (n, R)
                is_in_piece = (rows >= start) & (rows < start + len(logits))
                here = (is_in_layer & is_in_piece).nonzero()[:, 0]
                own_logits = logits[rows[here] - start, columns[here]]
                target_logits[here] = own_logits.to(self._sums_dtype)
                sums.add_(piece, logits)
        log_sums = sums.log_sums[rows]
        scores = [target_logits - log_sums]
        if sums.means is not None:
            scores.append(log_sums - sums.means[rows])
        return torch.stack(scores).cpu().double()

    def of_words(self, contexts: Tensor) -> Iterator[Tensor]:
        """Yield the log probability of every word in each context.

        Args:
            contexts: float, shape (N, P), on the device of the softmax.

        Yields:
            Natural logarithms, float64, shape (V,), on the CPU.
        """
        n_together = max(1, _MAX_LOGITS // self._n_words)
        for piece in torch.split(contexts.float(), n_together):
            logits = torch.empty(
                len(piece), self._n_words, dtype=torch.float64, device="cpu"
            )
            for layer in self._layers():
                last = layer.first + len(layer.bias)
                with exact_products():
                    if self._dtype == torch.bfloat16:
                        values = bfloat16_logits(piece, layer)
                    elif self._dtype == torch.int16:
                        values = int16_logits(piece, layer)
                    else:
                        values = layer.multiply(piece)
                logits[:, layer.first : last] = values
            yield from logits.log_softmax(dim=1)

    def _layers(self) -> Iterator[LogitLayer]:
        """Yield the layers of all words in order, from memory or from the file."""
        if self._held:
            yield from self._held
            return
        for rows in read_rows(self._path, WORDS_PER_READ):
            yield self._make_layer(rows)

    def _make_layer(self, rows: SoftmaxRows) -> LogitLayer:
        weight = rows.weight.to(self._device)
        bias = rows.bias.to(self._device)
        if self._dtype == torch.bfloat16:
            multiply = CompiledLinear(weight.to(self._dtype))
            return LogitLayer(rows.first, multiply, bias)
        if self._dtype == torch.int16:
            multiply = round_to_integers(weight, None, self._dtype)
            return LogitLayer(rows.first, multiply, bias)
        return LogitLayer(rows.first, make_linear(weight, bias), bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle. In a process without AMX, continue in float32."""
        vars(self).update(state)
        if self._dtype == torch.bfloat16 and softmax_kernel(self._dtype) is None:
            self._dtype = torch.float32
            layers = []
            for first, multiply, bias in self._held:
                weight, _ = multiply.unpack()
                layers.append(
                    self._make_layer(SoftmaxRows(first, weight.float(), bias))
                )
            self._held = layers


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """Compute `logits.logsumexp(dim=1)` in place of the logits, without a copy."""
    largest = logits.amax(dim=1)  # (n,)
    # The largest logit is taken out, so that no exponential overflows.
    exponentials = logits.sub_(largest[:, None]).exp_()
    return exponentials.sum(dim=1).log_().add_(largest)


class _LogitSums:
    """Sums over the logits of the words that were added so far, for N contexts."""

    def __init__(
        self,
        n_contexts: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        with_means: bool,
    ) -> None:
        self.log_sums = torch.full(
            (n_contexts,), float("-inf"), dtype=dtype, device=device
        )
        """Log of the sum of the exponentials, shape (N,)."""
        self.means = torch.zeros_like(self.log_sums) if with_means else None
        """Mean logit, in which a word weighs as much as its probability, shape (N,)."""

    def add_(self, piece: slice, logits: Tensor) -> None:
        """Add the logits of other words for some contexts, shape (n, R).

        They are overwritten.
        """
        mean = None
        if self.means is not None:
            mean = torch.linalg.vecdot(logits.softmax(dim=1), logits)
        before = self.log_sums[piece]
        added = _log_sum_exp_(logits).to(before.dtype)
        after = torch.logaddexp(before, added)
        if self.means is not None and mean is not None:
            share_before = (before - after).exp()
            share_added = (added - after).exp()
            self.means[piece] = self.means[piece] * share_before + mean * share_added
        self.log_sums[piece] = after
