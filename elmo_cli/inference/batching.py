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
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors import ComputationError, first_line, ignore
from elmo_cli.inference.precision import is_out_of_memory

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


def index_tokens(
    sentences: Sequence[Sequence[str]],
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct tokens in their order, and each index, (B, T), padded with -1."""
    index: dict[str, int] = {}
    rows = np.full((len(sentences), max(map(len, sentences), default=0)), -1)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [
            index.setdefault(token, len(index)) for token in sentence
        ]
    return list(index), rows


@dataclass(frozen=True)
class Trie:
    """Distinct beginnings of sentences: M nodes for B sentences of N tokens."""

    sizes: list[int]  # number of nodes per step; they sum to M
    tokens: NDArray[np.int64]  # token of each node, (M,)
    parents: Tensor  # index of a node's parent in the step before, or of its root, int64, (M,)
    nodes: Tensor  # node of each token, sentence after sentence, int64, (N,)
    n_ended: list[int]  # number of sentences that end at each step; they sum to B
    ends: Tensor  # index in its step of a sentence's last node, as the sentences end, int64, (B,)
    by_sentence: (
        Tensor  # index of each sentence in the order in which they end, int64, (B,)
    )


def build_trie(
    tokens: NDArray[np.int64],
    roots: NDArray[np.int64],
    device: torch.device,
    *,
    backward: bool,
) -> Trie:
    """Build the trie of B sentences, none empty, read from their ends if `backward`.

    The numbers of their tokens, (B, T), are padded with -1. `roots` are the indices of the states
    in which they start, (B,). Sentences share nodes only if they have one root.
    """
    if len(tokens) == 1:
        return _build_path(tokens[0][tokens[0] >= 0], roots, device, backward=backward)
    mask = tokens >= 0
    lengths = mask.sum(axis=1)
    steps = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    if backward:
        steps = np.where(mask, lengths[:, None] - 1 - steps, steps)
        tokens = np.take_along_axis(tokens, steps, axis=1)
    n_tokens = tokens.max(initial=0) + 1
    nodes, n_nodes, keys = np.empty_like(tokens), 0, []
    last = roots.copy()  # index of the last node of each sentence in its step
    for step in range(lengths.max()):
        running = np.flatnonzero(lengths > step)
        distinct, last[running] = np.unique(
            last[running] * n_tokens + tokens[running, step], return_inverse=True
        )
        nodes[running, step] = n_nodes + last[running]
        n_nodes += len(distinct)
        keys.append(distinct)
    parents, node_tokens = np.divmod(np.concatenate(keys), n_tokens)
    ended = lengths.argsort(kind="stable")  # sentences in the order in which they end
    to_device = partial(torch.as_tensor, device=device)
    return Trie(
        list(map(len, keys)),
        node_tokens,
        to_device(parents),
        to_device(np.take_along_axis(nodes, steps, axis=1)[mask]),
        np.bincount(lengths)[1:].tolist(),
        to_device(last[ended]),
        to_device(ended.argsort()),
    )


def _build_path(
    tokens: NDArray[np.int64],
    roots: NDArray[np.int64],
    device: torch.device,
    *,
    backward: bool,
) -> Trie:
    """Build the trie of one sentence, in a tenth of the time of a general one."""
    n_tokens = len(tokens)
    parents = torch.zeros(n_tokens, dtype=torch.int64, device=device)
    parents[0] = int(roots[0])
    nodes, end = torch.arange(n_tokens, device=device), parents.new_zeros(1)
    if backward:
        tokens, nodes = tokens[::-1].copy(), nodes.flip(0)
    n_ended = [0] * (n_tokens - 1) + [1]
    return Trie([1] * n_tokens, tokens, parents, nodes, n_ended, end, end)
