"""Division of a stream of sentences into windows, and of windows into batches.

A window is the part of a stream that is in memory at one time. Its sentences are
grouped by length into batches of a limited number of tokens.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch

from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import ComputationError
from elmo_cli.errors.wording import first_line
from elmo_cli.inference.memory import is_out_of_memory

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
ComputeBatch = Callable[[Sequence[int]], Sequence[_Result]]
"""Function from the indices of sentences in their window to one result each."""

BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768, "mps": 8192}
"""Tokens per batch, by device. Larger batches contain more repeated tokens, which are
computed once, but need more memory."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768, "mps": 256}
"""Sentences per batch, by device: enough for matrix products at full speed."""


@dataclass
class BatchLimit:
    """Limit of batches, which is lowered after one did not fit into memory."""

    n_tokens: int = sys.maxsize
    """Maximum number of tokens per batch."""


def split_by_size(
    sentences: Iterable[_Item],
    max_tokens: int,
    max_sentences: int,
    *,
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = never,
) -> Iterator[list[_Item]]:
    """Split a stream into lists.

    A list ends with the item with which it has `max_tokens` tokens or `max_sentences`
    sentences, or for which `ends_window` returns True. `length` returns the number of
    tokens of an item.
    """
    window: list[_Item] = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += length(sentence)
        is_full = n_tokens >= max_tokens or len(window) >= max_sentences
        if is_full or ends_window(sentence):
            yield window
            window = []
            n_tokens = 0
    if window:
        yield window


def compute_in_batches(
    compute_batch: ComputeBatch[_Result],
    lengths: Sequence[int],
    batch_tokens: int,
    device_type: str,
    *,
    carried: bool,
    compute_on_cpu: ComputeBatch[_Result] | None = None,
) -> tuple[dict[int, _Result | ComputationError], int]:
    """Compute the sentences of a window, in batches of similar lengths.

    After a batch that does not fit into memory, all have at most half of its tokens.

    Args:
        compute_batch: Function that computes a batch, on the device of the model.
        lengths: Number of tokens of each sentence.
        batch_tokens: Maximum number of tokens per batch.
        device_type: `cpu`, `cuda` or `mps`.
        carried: True if `compute_batch` changes a state. Then lack of memory is raised.
        compute_on_cpu: Function for a batch of one sentence that does not fit into
            memory. None: there is no other device, and the sentence gets an error.

    Returns:
        The result or error of each sentence with tokens, by its index, and the number
        of tokens per batch that fitted.
    """
    max_sentences = BATCH_SENTENCES[device_type]
    results: dict[int, _Result | ComputationError] = {}
    batches = list(
        group_by_length(
            lengths, batch_tokens=batch_tokens, batch_sentences=max_sentences
        )
    )
    while batches:
        batch = batches.pop(0)
        computed = (
            compute_batch(batch) if carried else _compute_or_catch(compute_batch, batch)
        )
        if isinstance(computed, ComputationError) and len(batch) > 1:
            batch_tokens = sum(lengths[index] for index in batch) // 2
            remaining = list(lengths)
            for index in results:
                remaining[index] = 0  # Sentences that are done are left out.
            batches = list(
                group_by_length(
                    remaining, batch_tokens=batch_tokens, batch_sentences=max_sentences
                )
            )
            continue
        if isinstance(computed, ComputationError) and compute_on_cpu is not None:
            computed = _compute_or_catch(compute_on_cpu, batch)
        if isinstance(computed, ComputationError):
            results[batch[0]] = computed
        else:
            results.update(zip(batch, computed, strict=True))
    return results, batch_tokens


def _compute_or_catch(
    compute_batch: ComputeBatch[_Result], batch: Sequence[int]
) -> Sequence[_Result] | ComputationError:
    """Compute a batch, or return the error if it does not fit into memory."""
    try:
        return compute_batch(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error).split("DefaultCPUAllocator: ")[-1]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        # Unlike torch, cuBLAS does not do this before it raises an error.
        torch.cuda.empty_cache()
    # An error created in the handler would hold the traceback, and with it the batch's
    # memory.
    return ComputationError(f"out of memory: {reason}")


def group_by_length(
    lengths: Sequence[int], batch_tokens: int, batch_sentences: int | None = None
) -> Iterator[list[int]]:
    """Yield the indices of sentences of similar lengths, the longest first.

    Empty sentences are left out. A longer sentence than `batch_tokens` is a batch of
    its own.
    """
    batch: list[int] = []
    n_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if length == 0:
            break
        is_full = len(batch) == batch_sentences or n_tokens + length > batch_tokens
        if batch and is_full:
            yield batch
            batch = []
            n_tokens = 0
        batch.append(index)
        n_tokens += length
    if batch:
        yield batch
