"""Softmax over the whole vocabulary: its file, and log probabilities of words in contexts.

softmax.hdf5 has one vector and one bias per word that a biLM predicts:

    softmax/W    (V, P)    float32 or float16; V words, P the projection_dim
    softmax/b    (V,)

The published models have this file next to their weights, for both directions. Safetensors have
these names too. The rows are in the order of the vocabulary.

A vocabulary has up to 800,000 words, so its vectors and the logits of many predictions are never
in memory together. In C, logits stay in the cache. The kernels are for float32, and with AMX for
bfloat16. The bits of a prediction depend neither on others nor on the number of threads.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from elmo_cli.compiled.linear import CompiledLinear, make_linear
from elmo_cli.inference.precision import exact_products
from elmo_cli.language_model.softmax_file import check_softmax, read_rows
from elmo_cli.language_model.softmax_kernels import (
    Words,
    bfloat16_logits,
    find_softmax,
    log_probabilities,
)
from elmo_cli.options.model import Precision

# number of words that are read together: 16 MiB of vectors of 512 values
ROWS: Final = 8192
# number of predictions that are computed together: 32 MiB of logits
PREDICTIONS: Final = 1024
LOGITS: Final = 2**23  # logits of all words that are computed together: 64 MiB
HELD_BYTES: Final = 2**30  # maximum size that is read once; a larger softmax, per batch


class FullSoftmax:
    """Softmax of a file. Logits are float32, and sums are float64 (on MPS float32).

    With AMX, `precision` bfloat16 multiplies in bfloat16. Every other precision is float32.
    """

    def __init__(
        self,
        path: Path,
        n_words: int,
        dim: int,
        device: torch.device,
        precision: Precision = "float32",
    ) -> None:
        """Check the file; load the softmax on a GPU, or if it is not larger than `HELD_BYTES`."""
        check_softmax(path, n_words, dim)
        self._n_words, self._path, self._device = n_words, path, device
        self._sums = torch.float32 if device.type == "mps" else torch.float64
        is_half = (
            precision == "bfloat16"
            and device.type == "cpu"
            and find_softmax(torch.bfloat16)
        )
        self._dtype = torch.bfloat16 if is_half else torch.float32
        self._held: list[Words] = []
        if device.type != "cpu" or self._dtype.itemsize * n_words * dim <= HELD_BYTES:
            self._held = list(self._words())

    @exact_products()
    def of_targets(
        self, contexts: Tensor, targets: Tensor, *, with_entropy: bool = False
    ) -> Tensor:
        """Compute the log probability of one word in each context, float, (N, P), on the device.

        `targets` are vocabulary indices, int64, (N,). The result is float64, (1, N), natural
        logarithms, on the CPU. With the entropies of the distributions over all words it is (2, N).
        """
        contexts, targets = contexts.float(), targets.to(self._device)
        if self._device.type != "cpu" or not find_softmax(self._dtype):
            return self._by_torch(contexts, targets, with_entropy)
        words, dtype = self._words(), self._dtype
        return log_probabilities(
            words, contexts, targets, dtype, with_entropy=with_entropy
        )

    def _by_torch(
        self, contexts: Tensor, targets: Tensor, with_entropy: bool
    ) -> Tensor:
        logs = torch.full(
            (len(targets),), float("-inf"), dtype=self._sums, device=self._device
        )
        target_logits, means = torch.zeros_like(logs), torch.zeros_like(logs)
        for first, multiply, bias in self._words():
            for start in range(0, len(targets), PREDICTIONS):
                piece = slice(start, start + PREDICTIONS)
                logits = multiply(contexts[piece])  # (n, R)
                columns = targets[piece] - first
                here = ((columns >= 0) & (columns < len(bias))).nonzero()[:, 0]
                target_logits[start + here] = logits[here, columns[here]].to(self._sums)
                mean = (
                    torch.linalg.vecdot(logits.softmax(dim=1), logits)
                    if with_entropy
                    else None
                )
                before, added = logs[piece], _log_sum_exp_(logits).to(self._sums)
                after = torch.logaddexp(before, added)
                if mean is not None:
                    means[piece] *= (before - after).exp()
                    means[piece] += mean * (added - after).exp()
                logs[piece] = after
        scores = [target_logits - logs, logs - means][: 1 + with_entropy]
        return torch.stack(scores).cpu().double()

    def of_words(self, contexts: Tensor) -> Iterator[Tensor]:
        """Yield the log probability of every word in each context, float, (N, P), on the device.

        Each is float64, shape (V,), natural logarithms, on the CPU.
        """
        for piece in torch.split(contexts.float(), max(1, LOGITS // self._n_words)):
            shape = len(piece), self._n_words
            logits = torch.empty(shape, dtype=torch.float64, device="cpu")
            for first, multiply, bias in self._words():
                is_half = self._dtype == torch.bfloat16
                with exact_products():
                    rows = (
                        bfloat16_logits(piece, multiply, bias)
                        if is_half
                        else multiply(piece)
                    )
                logits[:, first : first + len(bias)] = rows
            yield from logits.log_softmax(dim=1)

    def _words(self) -> Iterator[Words]:
        yield from self._held
        if self._held:
            return
        for first, weight, bias in read_rows(self._path, ROWS):
            yield self._pack(first, weight.to(self._device), bias.to(self._device))

    def _pack(self, first: int, weight: Tensor, bias: Tensor) -> Words:
        if self._dtype == torch.bfloat16:
            return first, CompiledLinear(weight.to(self._dtype)), bias
        return first, make_linear(weight, bias), bias

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle. In a process without AMX, continue in float32."""
        vars(self).update(state)
        if self._dtype == torch.bfloat16 and not find_softmax(self._dtype):
            self._dtype = torch.float32
            rows = [
                (first, layer.unpack()[0].float(), bias)
                for first, layer, bias in self._held
            ]
            self._held = [self._pack(*words) for words in rows]


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """Compute `logits.logsumexp(dim=1)` in place of the logits, without a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])
