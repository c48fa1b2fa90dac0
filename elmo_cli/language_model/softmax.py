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
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.errors import WeightsError
from elmo_cli.model.tensor_files import open_tensors, write_tensors

Array = NDArray[np.float32]

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"
ROWS: Final = 8192
"""Words at once, 16 MiB of vectors of 512 values."""
PREDICTIONS: Final = 1024
"""Predictions at once, 32 MiB of logits."""
HELD_BYTES: Final = 512 * 2**20
"""A softmax up to this size, in float32, is read once; a larger one again for each batch."""


# The file.


class SoftmaxRows(NamedTuple):
    """The softmax of some words that follow one another in the vocabulary."""

    first: int
    """The number of the first of them."""
    weight: Tensor
    """Float32, shape (R, P)."""
    bias: Tensor
    """Float32, shape (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Make sure that a softmax fits a vocabulary and a biLM; no value is read.

    Args:
        dim: the `projection_dim` of the biLM.

    Raises:
        WeightsError: it is missing, cut off, no softmax, or does not fit.
    """
    with open_tensors(path) as file:
        if "softmax" not in file:
            raise WeightsError(f"{path}: expected a softmax, found {file.kind()}")
        expected = {WEIGHT: (n_words, dim), BIAS: (n_words,)}
        mismatches = [
            f"{name}: expected {shape}, found {found}"
            for name, shape in expected.items()
            if (found := file.describe(name)) != shape
        ]
    if mismatches:
        raise WeightsError(
            f"{path} does not fit a vocabulary of {n_words:,} words and a projection_dim of "
            f"{dim}: {'; '.join(mismatches)}"
        )


def read_rows(path: str | Path, n_rows: int) -> Iterator[SoftmaxRows]:
    """Read a softmax that was checked, `n_rows` words at a time, so that little is in memory.

    Raises:
        WeightsError: the file is damaged, or values are not finite.
    """
    with open_tensors(path) as file:
        n_words = file.shape(BIAS)[0]
        for first in range(0, n_words, n_rows):
            last = min(first + n_rows, n_words)
            weight, bias = (
                torch.from_numpy(file.read(name, slice(first, last))) for name in (WEIGHT, BIAS)
            )
            if not (weight.isfinite().all() and bias.isfinite().all()):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {last - 1}"
                )
            yield SoftmaxRows(first, weight, bias)


def read_vectors(path: str | Path, words: NDArray[np.int64]) -> Array:
    """Read the vectors of some words of a softmax that was checked.

    Args:
        words: their numbers in the vocabulary, shape (N,); quick where they follow one another.

    Returns:
        float32, shape (N, P).

    Raises:
        WeightsError: the file is damaged.
    """
    runs = np.split(words, np.flatnonzero(np.diff(words) != 1) + 1)
    with open_tensors(path) as file:
        vectors = [file.read(WEIGHT, slice(run[0], run[-1] + 1)) for run in runs]
    return np.concatenate(vectors)


def write_softmax(path: str | Path, weight: Array, bias: Array, dtype: str = "float32") -> None:
    """Write a softmax, HDF5 or safetensors, which appears under its name when it is complete.

    Args:
        path, dtype: as in `write_tensors`.
        weight: float, shape (V, P).
        bias: float, shape (V,).

    Raises:
        OutputError: the file cannot be written.
    """
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)


# What it computes.


class FullSoftmax:
    """The softmax of a file. It computes in float32 and adds up in float64."""

    def __init__(
        self,
        path: Path,
        n_words: int,
        dim: int,
        device: torch.device,
        *,
        n_rows: int = ROWS,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        """Check the file.

        Args:
            path: HDF5 or safetensors.
            device: where to compute. A GPU holds the whole softmax.
            n_rows: words at once.
            held_bytes: the largest softmax that is kept in memory.

        Raises:
            WeightsError: it is missing, damaged, or does not fit.
        """
        check_softmax(path, n_words, dim)
        self.n_words = n_words
        self._path, self._device, self._n_rows = path, device, n_rows
        self._held: list[SoftmaxRows] | None = None
        if device.type != "cpu" or 4 * n_words * dim <= held_bytes:
            self._held = list(self._read())

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
        for rows in self._rows():
            for start in range(0, len(targets), PREDICTIONS):
                piece = slice(start, start + PREDICTIONS)
                logits = functional.linear(contexts[piece], rows.weight, rows.bias)  # (n, R)
                columns = targets[piece] - rows.first
                here = ((columns >= 0) & (columns < len(rows.bias))).nonzero()[:, 0]
                found[start + here] = logits[here, columns[here]].double()
                mean = _mean_logit(logits).double() if with_entropy else None
                before, added = logs[piece], _log_sum_exp_(logits).double()
                after = torch.logaddexp(before, added)
                if mean is not None:
                    means[piece] *= (before - after).exp()
                    means[piece] += mean * (added - after).exp()
                logs[piece] = after
        scores = [found - logs, logs - means][: 1 + with_entropy]
        return torch.stack(scores).cpu()

    def of_words(self, contexts: Tensor) -> Tensor:
        """The log probability of every word in each context.

        Args:
            contexts: float, shape (N, P), on the device.

        Returns:
            float64, shape (N, V), natural logarithms, on the CPU; see `at_once`.
        """
        contexts = contexts.float()
        logits = torch.empty(len(contexts), self.n_words, dtype=torch.float64)
        for rows in self._rows():
            values = functional.linear(contexts, rows.weight, rows.bias)  # (N, R)
            logits[:, rows.first : rows.first + len(rows.bias)] = values.double().cpu()
        return logits.sub_(logits.logsumexp(dim=1, keepdim=True))

    def at_once(self) -> int:
        """How many contexts `of_words` may take together: what it gives is at most 128 MiB."""
        return max(1, 2**24 // self.n_words)

    def _rows(self) -> Iterator[SoftmaxRows]:
        return self._read() if self._held is None else iter(self._held)

    def _read(self) -> Iterator[SoftmaxRows]:
        for first, weight, bias in read_rows(self._path, self._n_rows):
            yield SoftmaxRows(first, weight.to(self._device), bias.to(self._device))


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """What `logits.logsumexp(dim=1)` gives; the logits are used up, which spares a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])


def _mean_logit(logits: Tensor) -> Tensor:
    """The mean of the logits, each weighted by its probability among them; shape (n,)."""
    mean: Tensor = torch.linalg.vecdot(logits.softmax(dim=1), logits)
    return mean
