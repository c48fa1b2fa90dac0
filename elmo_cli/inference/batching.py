"""Division of streams of sentences into windows, of windows into batches, of batches into tries.

A window is the part of a stream that is in memory at one time. Its sentences are grouped by length
into batches of a limited number of tokens. From equal states, equal tokens lead an LSTM to equal
states. Therefore a batch becomes a trie, one per direction, which branches where tokens differ, so
that equal beginnings are computed once:

    step            0          1            2
    the cat sat     the ---+-- cat ------- sat
    the dog                +-- dog
    a dog           a -------- dog

The nodes are stored step after step, without padding.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import torch

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import ComputationError
from elmo_cli.errors.wording import first_line
from elmo_cli.inference.memory import is_out_of_memory

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]

BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768, "mps": 8192}
"""Tokens per batch, by device. Larger batches contain more repeated tokens, which are computed
once, but need more memory."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768, "mps": 256}
"""Sentences per batch, by device: enough for matrix products at full speed."""


def split_by_size(
    sentences: Iterable[_Item],
    max_tokens: int,
    max_sentences: int,
    *,
    length: Callable[[Any], int] = len,
    ends_window: Callable[[Any], bool] = ignore,
) -> Iterator[list[_Item]]:
    """Split a stream into lists, each up to the item that reaches a maximum or `ends_window`."""
    window: list[_Item] = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += length(sentence)
        if (
            n_tokens >= max_tokens
            or len(window) >= max_sentences
            or ends_window(sentence)
        ):
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
) -> tuple[dict[int, _Result | ComputationError], int]:
    """Compute the sentences of a window, in batches of similar lengths.

    After a batch that does not fit into memory, all have at most half of its tokens. A sentence
    that does not fit alone is for `compute_on_cpu`. With carried state the error is raised. Return
    the result or error of each sentence with tokens, by its index, and the tokens that fitted.
    """
    results: dict[int, _Result | ComputationError] = {}
    batches = [*group_by_length(lengths, batch_tokens, BATCH_SENTENCES[device_type])]
    while batches:
        batch = batches.pop(0)
        computed = compute(batch) if carried else _compute_or_catch(compute, batch)
        if isinstance(computed, ComputationError) and len(batch) > 1:
            batch_tokens = sum(lengths[index] for index in batch) // 2
            left = [
                0 if index in results else length
                for index, length in enumerate(lengths)
            ]
            batches = [
                *group_by_length(left, batch_tokens, BATCH_SENTENCES[device_type])
            ]
            continue
        if isinstance(computed, ComputationError) and compute_on_cpu:
            computed = _compute_or_catch(compute_on_cpu, batch)
        if isinstance(computed, ComputationError):
            results[batch[0]] = computed
        else:
            results.update(zip(batch, computed, strict=True))
    return results, batch_tokens


def _compute_or_catch(
    compute: _Compute[_Result], batch: Sequence[int]
) -> Sequence[_Result] | ComputationError:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error).split("DefaultCPUAllocator: ")[-1]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()  # Unlike torch, cuBLAS does not do this before it raises an error.
    # An error created in the handler would hold the traceback, and with it the batch's memory.
    return ComputationError(f"out of memory: {reason}")


def group_by_length(
    lengths: Sequence[int], batch_tokens: int, batch_sentences: int | None = None
) -> Iterator[list[int]]:
    """Yield the indices of sentences of similar lengths, the longest first, without empty ones.

    A longer sentence than `batch_tokens` is a batch of its own.
    """
    batch: list[int] = []
    n_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[index] == 0:
            break
        n_tokens += lengths[index]
        if batch and (len(batch) == batch_sentences or n_tokens > batch_tokens):
            yield batch
            batch, n_tokens = [], lengths[index]
        batch.append(index)
    if batch:
        yield batch
