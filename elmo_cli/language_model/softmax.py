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

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled import kernels, structures
from elmo_cli.compiled.linear import CompiledLinear, Linear, make_linear
from elmo_cli.compiled.structures import address
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.model.tensor_files import SOFTMAX, open_tensors, write_tensors
from elmo_cli.settings import Precision

Array = NDArray[np.float32]

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"
# number of words that are read together: 16 MiB of vectors of 512 values
ROWS: Final = 8192
# number of predictions that are computed together: 32 MiB of logits
PREDICTIONS: Final = 1024
LOGITS: Final = 2**23  # logits of all words that are computed together: 64 MiB
HELD_BYTES: Final = 2**30  # maximum size that is read once; a larger softmax, per batch
Rows = tuple[int, Tensor, Tensor]
"""Softmax of R consecutive words of the vocabulary: index of the first word, vectors and biases,
float32, shapes (R, P) and (R,)."""
Words = tuple[int, Linear, Tensor]
"""R consecutive words of a vocabulary: index of the first, a layer that multiplies with their
vectors, and biases, float32, shape (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Raise a `WeightsError` unless a softmax has the shapes for a vocabulary and a biLM."""
    with open_tensors(path) as file:
        file.check_kind(SOFTMAX)
        file.check_shapes(
            {WEIGHT: (n_words, dim), BIAS: (n_words,)},
            f"a vocabulary of {n_words:,} words and a projection_dim of {dim}",
        )


def read_rows(path: str | Path, n_rows: int) -> Iterator[Rows]:
    """Read a checked softmax, `n_rows` words at a time, to limit memory."""
    with open_tensors(path) as file:
        biases = torch.from_numpy(file.read(BIAS))
        for first in range(0, len(biases), n_rows):
            bias = biases[first : first + n_rows]
            last = first + len(bias)
            weight = torch.from_numpy(file.read(WEIGHT, slice(first, last)))
            if not (_is_finite(weight) and _is_finite(bias)):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {last - 1}"
                )
            yield first, weight, bias


def read_word_vectors(path: str | Path, words: NDArray[np.int64]) -> Array:
    """Read the vectors, shape (N, P), of words by their indices, from a checked softmax."""
    runs = np.split(
        words, np.flatnonzero(np.diff(words) != 1) + 1
    )  # each is read together
    with open_tensors(path) as file:
        return np.concatenate(
            [file.read(WEIGHT, slice(run[0], run[-1] + 1)) for run in runs]
        )


def write_softmax(
    path: str | Path, weight: Array, bias: Array, dtype: str = "float32"
) -> None:
    """Write a softmax, shapes (V, P) and (V,), to a file; see `write_tensors`."""
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)


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
            and softmax_kernel(torch.bfloat16)
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
        if self._device.type != "cpu" or not softmax_kernel(self._dtype):
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
        if self._dtype == torch.bfloat16 and not softmax_kernel(self._dtype):
            self._dtype = torch.float32
            rows = [
                (first, layer.unpack()[0].float(), bias)
                for first, layer, bias in self._held
            ]
            self._held = [self._pack(*words) for words in rows]


def _is_finite(values: Tensor) -> bool:
    """Return whether all values are finite, in a tenth of the time of `isfinite` for each."""
    return all(extreme.isfinite() for extreme in values.aminmax())


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """Compute `logits.logsumexp(dim=1)` in place of the logits, without a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])


def softmax_kernel(dtype: torch.dtype, name: str = "probabilities") -> str | None:
    """Return a function in C for the softmax that multiplies values of a data type, or None."""
    kernel = f"{name}_{dtype}"
    if dtype == torch.bfloat16:
        if not kernels.has_tiles():
            return None
        kernel = f"{kernel}_tiles"
    return kernel if kernels.has_kernel(kernel) else None


def log_probabilities(
    vocabulary: Iterable[Words],
    contexts: Tensor,
    targets: Tensor,
    dtype: torch.dtype,
    *,
    with_entropy: bool = False,
) -> Tensor:
    """Compute log probabilities as `FullSoftmax.of_targets`, with layers that were packed."""
    kernel = softmax_kernel(dtype)
    assert kernel is not None
    n = len(targets)
    factors = _prepare(contexts, dtype)
    targets = targets.contiguous()
    # Per prediction: reference, sum of exponentials, sum of logits times them, target's logit.
    sums = torch.zeros(n, 4, dtype=torch.float64, device="cpu")
    sums[:, 0] = -1e30
    for first, words, bias in vocabulary:
        n_chunks = -(-len(bias) // kernels.read_constant("probabilities_chunk"))
        totals = torch.empty(n_chunks, n, 3, device="cpu")
        arguments = structures.Words(
            n=n,
            n_units=words.weight.shape[1],
            first_word=first,
            n_words=len(bias),
            contexts=address(factors, dtype),
            weights=address(words.weight, dtype),
            bias=address(bias, torch.float32),
            targets=address(targets, torch.int64),
            with_mean=int(with_entropy),
            totals=address(totals, torch.float32),
            predictions=address(sums, torch.float64),
            logits=None,
        )
        kernels.run_kernel(kernel, arguments)
    reference, total, mean, target = sums.t().contiguous()
    bits = [target - reference - total.log2(), total.log2() - mean / total]
    return torch.stack(bits[: 1 + with_entropy]) * math.log(2)


def bfloat16_logits(contexts: Tensor, words: Linear, bias: Tensor) -> Tensor:
    """Multiply contexts, (N, P), with R packed words to logits, float32, shape (N, R)."""
    kernel = softmax_kernel(torch.bfloat16, "logits")
    assert kernel is not None
    logits = torch.empty(len(contexts), len(bias), device="cpu")
    factors = _prepare(contexts, torch.bfloat16)
    arguments = structures.Words(
        n=len(contexts),
        n_units=words.weight.shape[1],
        first_word=0,
        n_words=len(bias),
        contexts=address(factors, torch.bfloat16),
        weights=address(words.weight, torch.bfloat16),
        bias=address(bias, torch.float32),
        targets=None,
        with_mean=0,
        totals=None,
        predictions=None,
        logits=address(logits, torch.float32),
    )
    kernels.run_kernel(kernel, arguments)
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
