"""The softmax over the whole vocabulary: its file, and log probabilities of words in contexts.

softmax.hdf5 has a vector and a bias for each word that a biLM predicts:

    softmax/W    (V, P)    float32 or float16; V words, P the projection_dim
    softmax/b    (V,)

The published models have it in this form, apart from their weights; both directions
share it. Safetensors have the same names. The rows are in the order of the vocabulary.

A vocabulary has up to 800,000 words, so neither its vectors nor the logits of many
predictions need be in memory together: both are cut, and sums of exponentials added up.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.errors import WeightsError
from elmo_cli.model.weights import SOFTMAX, open_tensors, write_tensors

Array = NDArray[np.float32]

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"
ROWS: Final = 8192
"""Words at once, 16 MiB of vectors of 512 values."""
PREDICTIONS: Final = 1024
"""Predictions at once, 32 MiB of logits."""
LOGITS: Final = 2**23
"""Logits of all words in some contexts at once, 64 MiB."""
HELD_BYTES: Final = 512 * 2**20
"""A softmax up to this size, in float32, is read once; a larger one again for each batch."""


# The file.


Rows = tuple[int, Tensor, Tensor]
"""The softmax of R words that follow one another in the vocabulary: the number of the first of
them, their vectors and their biases, float32, shapes (R, P) and (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Make sure that a softmax fits a vocabulary and a biLM, by its `dim`; no value is read."""
    with open_tensors(path) as file:
        file.check_kind(SOFTMAX)
        file.check_shapes(
            {WEIGHT: (n_words, dim), BIAS: (n_words,)},
            f"a vocabulary of {n_words:,} words and a projection_dim of {dim}",
        )


def read_rows(path: str | Path, n_rows: int) -> Iterator[Rows]:
    """Read a softmax that was checked, `n_rows` words at a time, so that little is in memory."""
    with open_tensors(path) as file:
        biases = torch.from_numpy(file.read(BIAS))
        for first in range(0, len(biases), n_rows):
            bias = biases[first : first + n_rows]
            last = first + len(bias)
            weight = torch.from_numpy(file.read(WEIGHT, slice(first, last)))
            if not (weight.isfinite().all() and bias.isfinite().all()):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {last - 1}"
                )
            yield first, weight, bias


def read_vectors(path: str | Path, words: NDArray[np.int64]) -> Array:
    """The vectors, shape (N, P), of the words of some numbers, of a softmax that was checked."""
    runs = np.split(words, np.flatnonzero(np.diff(words) != 1) + 1)  # each is read together
    with open_tensors(path) as file:
        return np.concatenate([file.read(WEIGHT, slice(run[0], run[-1] + 1)) for run in runs])


def write_softmax(path: str | Path, weight: Array, bias: Array, dtype: str = "float32") -> None:
    """Write a softmax, (V, P) and (V,), as `write_tensors` does."""
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)


# What it computes.


class FullSoftmax:
    """The softmax of a file. It computes in float32 and adds up in float64."""

    def __init__(self, path: Path, n_words: int, dim: int, device: torch.device) -> None:
        """Check the file. A GPU holds the whole softmax."""
        check_softmax(path, n_words, dim)
        self._n_words, self._path, self._device = n_words, path, device
        self._held: list[Rows] = []
        if device.type != "cpu" or 4 * n_words * dim <= HELD_BYTES:
            self._held = list(self._rows())

    def of_targets(
        self, contexts: Tensor, targets: Tensor, *, with_entropy: bool = False
    ) -> Tensor:
        """The log probability of one word in each context.

        Args:
            contexts: float, shape (N, P), on the device.
            targets: int64, shape (N,): vocabulary indices.
            with_entropy: give the entropy of the distribution over all words too.

        Returns:
            float64, shape (1, N), natural logarithms, on the CPU; (2, N) with the entropies.
        """
        contexts, targets = contexts.float(), targets.to(self._device)
        logs = torch.full((len(targets),), float("-inf"), dtype=torch.float64, device=self._device)
        found, means = torch.zeros_like(logs), torch.zeros_like(logs)
        for first, weight, bias in self._rows():
            for start in range(0, len(targets), PREDICTIONS):
                piece = slice(start, start + PREDICTIONS)
                logits = functional.linear(contexts[piece], weight, bias)  # (n, R)
                columns = targets[piece] - first
                here = ((columns >= 0) & (columns < len(bias))).nonzero()[:, 0]
                found[start + here] = logits[here, columns[here]].double()
                mean = torch.linalg.vecdot(logits.softmax(dim=1), logits) if with_entropy else None
                before, added = logs[piece], _log_sum_exp_(logits).double()
                after = torch.logaddexp(before, added)
                if mean is not None:
                    means[piece] *= (before - after).exp()
                    means[piece] += mean * (added - after).exp()
                logs[piece] = after
        scores = [found - logs, logs - means][: 1 + with_entropy]
        return torch.stack(scores).cpu()

    def of_words(self, contexts: Tensor) -> Iterator[Tensor]:
        """The log probability of every word in each context.

        Args:
            contexts: float, shape (N, P), on the device.

        Yields:
            For each context float64, shape (V,), natural logarithms, on the CPU.
        """
        for piece in torch.split(contexts.float(), max(1, LOGITS // self._n_words)):
            logits = torch.empty(len(piece), self._n_words, dtype=torch.float64)
            for first, weight, bias in self._rows():
                logits[:, first : first + len(bias)] = functional.linear(piece, weight, bias)
            yield from logits.log_softmax(dim=1)

    def _rows(self) -> Iterator[Rows]:
        yield from self._held
        if not self._held:
            for first, weight, bias in read_rows(self._path, ROWS):
                yield first, weight.to(self._device), bias.to(self._device)


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """What `logits.logsumexp(dim=1)` gives; the logits are used up, which spares a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])
