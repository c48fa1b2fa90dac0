"""Division of streams of sentences into windows, and of windows into batches.

A window is the part of a stream that is in memory at one time. Its sentences are grouped by length
into batches of a limited number of tokens.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ComputationError, check_at_least, first_line
from elmo_cli.inference.memory import is_out_of_memory

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]

BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768, "mps": 8192}
"""Tokens per batch, by device. Larger batches contain more repeated tokens, which are computed
once, but need more memory."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768, "mps": 256}
"""Sentences per batch, by device: enough for matrix products at full speed."""
WINDOW_BATCHES: Final = 2
"""Batches per window: enough sentences for batches of similar lengths."""


def find_distinct_sentences(
    sentences: Sequence[list[str]],
) -> tuple[list[list[str]], list[int]]:
    """Return the distinct sentences, and the index of each sentence among them."""
    index: dict[tuple[str, ...], int] = {}
    indices = [index.setdefault(tuple(sentence), len(index)) for sentence in sentences]
    return [list(sentence) for sentence in index], indices


def choose_batch_tokens(batch_tokens: int | None, device_type: str) -> int:
    """Return the number of tokens per batch: `batch_tokens`, or the default of the device."""
    if batch_tokens is None:
        return BATCH_TOKENS[device_type]
    check_at_least("batch_tokens", batch_tokens, 1)
    return batch_tokens


def split_into_windows(
    sentences: Iterable[_Item],
    batch_size: int,
    batch_tokens: int,
    *,
    carried: bool,
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = lambda item: False,
) -> Iterator[list[_Item]]:
    """Split a stream into windows, each of which is in memory and computed as a whole.

    A window has `WINDOW_BATCHES` batches of `batch_tokens` tokens. It ends earlier at an item for
    which `ends_window` returns True. With carried state, it is one batch of `batch_size`
    sentences.
    """
    check_at_least("batch_size", batch_size, 1)
    if carried:
        return split_by_size(sentences, sys.maxsize, batch_size, length=length)
    n_tokens = WINDOW_BATCHES * batch_tokens
    return split_by_size(sentences, n_tokens, n_tokens, length=length, ends_window=ends_window)


def split_by_size(
    sentences: Iterable[_Item],
    max_tokens: int,
    max_sentences: int,
    *,
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = lambda item: False,
) -> Iterator[list[_Item]]:
    """Split a stream into lists of about `max_tokens` tokens.

    A list ends with the item that reaches a maximum, or for which `ends_window` returns True.
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
    """Compute the sentences of a window, in batches of similar lengths.

    A batch that does not fit into memory is split in halves. A single sentence that does not fit
    is computed by `compute_on_cpu`.

    Args:
        compute: Returns the results of a batch of indices. It has no effect when it fails.
        lengths: Number of tokens per sentence.
        batch_tokens: Maximum number of tokens per batch.
        device_type: `cpu`, `cuda` or `mps`.
        carried: True if the state is carried over. It may have changed when memory runs out, so
            that the error is raised instead of returned.
        compute_on_cpu: Computes a sentence that is too long for a GPU.

    Returns:
        The result of each sentence that has tokens, by its index, or an error if the sentence
        alone does not fit into memory.
    """
    results: dict[int, _Result | ComputationError] = {}
    batches = [*group_by_length(lengths, batch_tokens, BATCH_SENTENCES[device_type])]
    while batches:
        batch = batches.pop(0)
        computed = compute(batch) if carried else _compute_or_catch(compute, batch)
        if isinstance(computed, ComputationError) and len(batch) == 1 and compute_on_cpu:
            computed = _compute_or_catch(compute_on_cpu, batch)
        if not isinstance(computed, ComputationError):
            results.update(zip(batch, computed, strict=True))
        elif len(batch) == 1:
            results[batch[0]] = computed
        else:
            half = len(batch) // 2
            batches[:0] = batch[:half], batch[half:]
    return results


def _compute_or_catch(
    compute: _Compute[_Result], batch: Sequence[int]
) -> Sequence[_Result] | ComputationError:
    """Compute a batch, and return an error if it does not fit into memory."""
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    # An error created in the handler would hold the traceback, and with it the batch's memory.
    return ComputationError(f"out of memory: {reason}")


def group_by_length(
    lengths: Sequence[int], batch_tokens: int, batch_sentences: int | None = None
) -> Iterator[list[int]]:
    """Group sentences of similar lengths, the longest first.

    Args:
        lengths: Number of tokens per sentence.
        batch_tokens: Maximum number of tokens per batch. A longer sentence is a batch of its own.
        batch_sentences: Maximum number of sentences per batch. None is no limit.

    Yields:
        The indices of the sentences of a batch, without empty sentences.
    """
    batch: list[int] = []
    n_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[index] == 0:
            break
        is_full = len(batch) == batch_sentences or n_tokens + lengths[index] > batch_tokens
        if batch and is_full:
            yield batch
            batch, n_tokens = [], 0
        batch.append(index)
        n_tokens += lengths[index]
    if batch:
        yield batch


def index_tokens(sentences: Sequence[Sequence[str]]) -> tuple[list[str], NDArray[np.int64]]:
    """Index the distinct tokens of sentences.

    Returns:
        The tokens in order of first appearance, and the index of each token of the sentences,
        shape (B, T), -1 where there is no token.
    """
    index: dict[str, int] = {}
    rows = np.full((len(sentences), max(map(len, sentences), default=0)), -1)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [index.setdefault(token, len(index)) for token in sentence]
    return list(index), rows
