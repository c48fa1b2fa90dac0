"""Sentences to batches: bounded windows, like lengths together.

A window is as much of the stream as is held in memory at once; within it,
sentences are grouped by length under a budget of tokens.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ComputationError, check_at_least, first_line
from elmo_cli.inference.device import is_out_of_memory

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]

BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768, "mps": 8192}
"""Tokens in a batch, by device: the more, the more of them are equal, but the more memory."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768, "mps": 256}
"""Sentences in a batch, by device: enough for the matrix products to run at full speed."""
WINDOW_BATCHES: Final = 2
"""Batches in a window: enough sentences that those of a batch are of like length."""


def distinct_sentences(sentences: Sequence[list[str]]) -> tuple[list[list[str]], list[int]]:
    """The sentences without those that are there already, and which of them each one is."""
    places: dict[tuple[str, ...], int] = {}
    indices = [places.setdefault(tuple(sentence), len(places)) for sentence in sentences]
    return [list(sentence) for sentence in places], indices


def tokens_per_batch(batch_tokens: int | None, device_type: str) -> int:
    """The maximum number of tokens in a batch: as given, at least 1, or the device's default."""
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
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = lambda item: False,
) -> Iterator[list[_Item]]:
    """Split a stream into windows, each held in memory and computed at once.

    A window is `WINDOW_BATCHES` batches of `batch_tokens` tokens, or fewer where `ends_window` is
    True for an item. Where the state is carried over, it is one batch of `batch_size` sentences.
    """
    check_at_least("batch_size", batch_size, 1)
    if carried:
        return windows(sentences, sys.maxsize, batch_size, length=length)
    n_tokens = WINDOW_BATCHES * batch_tokens
    return windows(sentences, n_tokens, n_tokens, length=length, ends_window=ends_window)


def windows(
    sentences: Iterable[_Item],
    max_tokens: int,
    max_sentences: int,
    *,
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = lambda item: False,
) -> Iterator[list[_Item]]:
    """Split a stream into lists of about `max_tokens` tokens.

    A list ends with the item that reaches a maximum, or for which `ends_window` is True.
    """
    window: list[_Item] = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += length(sentence)
        if n_tokens >= max_tokens or len(window) >= max_sentences or ends_window(sentence):
            yield window
            window, n_tokens = [], 0
    if window:
        yield window


def compute_window(
    compute: _Compute[_Result],
    lengths: Sequence[int],
    batch_tokens: int,
    device_type: str,
    *,
    carried: bool,
    compute_on_cpu: _Compute[_Result] | None = None,
) -> dict[int, _Result | ComputationError]:
    """Compute the sentences of a window, in batches of like length.

    Out of memory: retry the batch in halves, then on the CPU.

    Args:
        compute: gives the results of a batch of indices; changes nothing when it fails.
        lengths: tokens in each sentence.
        batch_tokens: the maximum number of tokens in a batch.
        device_type: `cpu`, `cuda` or `mps`.
        carried: states are carried over, and may have moved on when memory runs out: no retry.
        compute_on_cpu: the same on the CPU, for a sentence that is too long for a GPU.

    Returns:
        The result of each sentence that has tokens, by its index; an error for one that memory
        does not suffice for.
    """
    results: dict[int, _Result | ComputationError] = {}
    batches = [*batches_by_length(lengths, batch_tokens, BATCH_SENTENCES[device_type])]
    while batches:
        batch = batches.pop(0)
        found = compute(batch) if carried else _try(compute, batch)
        if isinstance(found, ComputationError) and len(batch) == 1 and compute_on_cpu:
            found = _try(compute_on_cpu, batch)
        if not isinstance(found, ComputationError):
            results.update(zip(batch, found, strict=True))
        elif len(batch) == 1:
            results[batch[0]] = found
        else:
            half = len(batch) // 2
            batches[:0] = batch[:half], batch[half:]
    return results


def _try(compute: _Compute[_Result], batch: Sequence[int]) -> Sequence[_Result] | ComputationError:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    # Made outside of the handler: a traceback would keep the memory of the failed batch.
    return ComputationError(f"out of memory: {reason}")


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
    """The distinct tokens of sentences, in order of first appearance, and where each is in them.

    The latter is int64, shape (B, T), -1 where a sentence has no token.
    """
    index: dict[str, int] = {}
    rows = np.full((len(sentences), max(map(len, sentences), default=0)), -1)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [index.setdefault(token, len(index)) for token in sentence]
    return list(index), rows
