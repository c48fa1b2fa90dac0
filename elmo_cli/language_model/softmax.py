"""Contexts to log probabilities of words: the softmax over the whole vocabulary, in pieces.

A vocabulary has up to 800,000 words, so neither its vectors nor the logits of many
predictions need be in memory together: both are cut, and sums of exponentials added up.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.language_model.softmax_file import check_softmax, read_rows

ROWS: Final = 8192
"""Words at once, 16 MiB of vectors of 512 values."""
PREDICTIONS: Final = 1024
"""Predictions at once, 32 MiB of logits."""
HELD_BYTES: Final = 512 * 2**20
"""A softmax up to this size, in float32, is read once; a larger one again for each batch."""


class _Rows(NamedTuple):
    """Some words of the vocabulary, on the device."""

    first: int
    weight: Tensor
    """Shape (R, P)."""
    bias: Tensor
    """Shape (R,)."""


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
            path: HDF5 or safetensors; see `softmax_file`.
            n_words: the size of the vocabulary.
            dim: the `projection_dim` of the biLM.
            device: where to compute. A GPU holds the whole softmax.
            n_rows: words at once.
            held_bytes: the largest softmax that is kept in memory.

        Raises:
            WeightsError: it is missing, damaged, or does not fit.
        """
        check_softmax(path, n_words, dim)
        self.n_words = n_words
        self._path, self._device, self._n_rows = path, device, n_rows
        self._held: list[_Rows] | None = None
        if device.type != "cpu" or 4 * n_words * dim <= held_bytes:
            self._held = list(self._read())

    def of_targets(self, contexts: Tensor, targets: Tensor) -> Tensor:
        """The log probability of one word in each context.

        Args:
            contexts: float, shape (N, P), on the device.
            targets: int64, shape (N,): vocabulary indices.

        Returns:
            float64, shape (N,), natural logarithms, on the CPU.
        """
        contexts, targets = contexts.float(), targets.to(self._device)
        logs = torch.full((len(targets),), float("-inf"), dtype=torch.float64, device=self._device)
        found = torch.zeros_like(logs)
        for rows in self._rows():
            for start in range(0, len(targets), PREDICTIONS):
                piece = slice(start, start + PREDICTIONS)
                logits = functional.linear(contexts[piece], rows.weight, rows.bias)  # (n, R)
                columns = targets[piece] - rows.first
                here = ((columns >= 0) & (columns < len(rows.bias))).nonzero()[:, 0]
                found[start + here] = logits[here, columns[here]].double()
                logs[piece] = torch.logaddexp(logs[piece], _log_sum_exp_(logits).double())
        return (found - logs).cpu()

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

    def _rows(self) -> Iterator[_Rows]:
        return self._read() if self._held is None else iter(self._held)

    def _read(self) -> Iterator[_Rows]:
        for first, weight, bias in read_rows(self._path, self._n_rows):
            yield _Rows(first, *(torch.from_numpy(a).to(self._device) for a in (weight, bias)))


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """What `logits.logsumexp(dim=1)` gives; the logits are used up, which spares a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])
