"""Sentences to batches: bounded windows, like lengths together.

A window is as much of the stream as is held in memory at once; within it,
sentences are grouped by length under a budget of tokens.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ComputationError, check_at_least
from elmo_cli.inference.device import retry_in_halves

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

DEFAULT_BATCH_SIZE: Final = 64
"""Sentences in a batch where states are carried over; it changes results only there."""
BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768, "mps": 8192}
"""Tokens in a batch, by device: the more, the more of them are equal, but the more memory."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768, "mps": 256}
"""Sentences in a batch, by device: enough for the matrix products to run at full speed."""
WINDOW_BATCHES: Final = 2
"""Batches in a window: enough sentences that those of a batch are of like length."""


def _length(sentence: Any) -> int:
    return len(sentence)


def distinct_sentences(sentences: Sequence[list[str]]) -> tuple[list[list[str]], list[int]]:
    """The sentences without those that are there already, and which of them each one is."""
    places: dict[tuple[str, ...], int] = {}
    indices = [places.setdefault(tuple(sentence), len(places)) for sentence in sentences]
    return [list(sentence) for sentence in places], indices


def tokens_per_batch(batch_tokens: int | None, device_type: str) -> int:
    """The maximum number of tokens in a batch: as given, else the default for the device.

    Raises:
        InputError: it is below 1.
    """
    if batch_tokens is None:
        return BATCH_TOKENS[device_type]
    check_at_least("batch_tokens", batch_tokens, 1)
    return batch_tokens


def sentence_windows(
    sentences: Iterable[_Item],
    batch_size: int,
    batch_tokens: int,
    *,
    carried: bool,
    length: Callable[[_Item], int] = _length,
    is_ready: Callable[[], bool] = lambda: True,
) -> Iterator[list[_Item]]:
    """Cut a stream into windows, each held in memory and computed at once.

    Args:
        sentences: a stream of sentences.
        batch_size: sentences in a window where states are carried over: one batch.
        batch_tokens: the maximum number of tokens in a batch; a window has several batches.
        carried: states are carried over from batch to batch.
        length: the number of tokens in a sentence.
        is_ready: whether the next sentence is there; where it is not, a window is closed,
            unless states are carried over.

    Raises:
        InputError: `batch_size` is below 1.
    """
    check_at_least("batch_size", batch_size, 1)
    if carried:
        return windows(sentences, sys.maxsize, batch_size, length=length)
    n_tokens = WINDOW_BATCHES * batch_tokens
    return windows(sentences, n_tokens, n_tokens, length=length, is_ready=is_ready)


def windows(
    sentences: Iterable[_Item],
    max_tokens: int,
    max_sentences: int,
    *,
    length: Callable[[_Item], int] = _length,
    is_ready: Callable[[], bool] = lambda: True,
) -> Iterator[list[_Item]]:
    """Cut a stream into lists, each closed by the sentence that reaches a bound."""
    window: list[_Item] = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += length(sentence)
        if n_tokens >= max_tokens or len(window) >= max_sentences or not is_ready():
            yield window
            window, n_tokens = [], 0
    if window:
        yield window


def compute_window(
    compute: Callable[[Sequence[int]], Sequence[_Result]],
    lengths: Sequence[int],
    batch_tokens: int,
    device_type: str,
    *,
    carried: bool,
    compute_on_cpu: Callable[[Sequence[int]], Sequence[_Result]] | None = None,
) -> dict[int, _Result | ComputationError]:
    """Compute the sentences of a window, in batches of like length.

    Args:
        compute: gives the results of a batch of indices.
        lengths: tokens in each sentence.
        batch_tokens: the maximum number of tokens in a batch.
        device_type: `cpu`, `cuda` or `mps`.
        carried: states are carried over from batch to batch, so none is computed twice.
        compute_on_cpu: computes a sentence that is too long for the memory of a GPU.

    Returns:
        The result of each sentence that has tokens, by its index; an error for one that memory
        does not suffice for.
    """
    results: dict[int, _Result | ComputationError] = {}
    for batch in batches_by_length(lengths, batch_tokens, BATCH_SENTENCES[device_type]):
        if carried:  # the states may have moved on when memory runs out: no second try
            results.update(zip(batch, compute(batch), strict=True))
        else:
            results.update(retry_in_halves(compute, batch, compute_on_cpu))
    return results


def batches_by_length(
    lengths: Sequence[int], batch_tokens: int, batch_sentences: int | None = None
) -> Iterator[list[int]]:
    """Group sentences of like length, longest first, under a budget.

    Args:
        lengths: tokens in each sentence.
        batch_tokens: the maximum number of tokens in a batch; a longer sentence goes alone.
        batch_sentences: the maximum number of sentences in a batch; None is no limit.

    Yields:
        The indices of the sentences of a batch. Empty sentences are in none.
    """
    batch: list[int] = []
    n_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[index] == 0:
            break
        full = len(batch) == batch_sentences or n_tokens + lengths[index] > batch_tokens
        if batch and full:
            yield batch
            batch, n_tokens = [], 0
        batch.append(index)
        n_tokens += lengths[index]
    if batch:
        yield batch


def index_tokens(sentences: Sequence[Sequence[str]]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct tokens of sentences, and where each token is among them.

    Returns:
        The tokens, in order of first appearance, and int64, shape (B, T), -1 where
        a sentence has no token.
    """
    index: dict[str, int] = {}
    rows = np.full((len(sentences), max(map(len, sentences), default=0)), -1)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [index.setdefault(token, len(index)) for token in sentence]
    return list(index), rows
