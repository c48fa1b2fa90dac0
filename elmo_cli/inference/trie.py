"""Sentences to a trie, one direction of a batch: those that begin alike share their steps.

An LSTM that starts from the same state and reads the same tokens is in the same state.
So each distinct beginning is computed once; sentences part where their tokens do.

    step            0          1            2
    the cat sat     the ---+-- cat ------- sat
    the dog                +-- dog
    a dog           a -------- dog

The nodes lie step after step, and nothing is padded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Trie:
    """The distinct beginnings of sentences. M nodes for B sentences of N tokens."""

    sizes: list[int]
    """The nodes of each step; they sum to M."""
    tokens: NDArray[np.int64]
    """The token of each node, shape (M,)."""
    parents: Sequence[Tensor]
    """For each node of a step, its parent's place in the step before, or its root, shape (n,)."""
    nodes: Tensor
    """The node of each token, sentence after sentence, shape (N,)."""
    n_ended: list[int]
    """The sentences that end at each step; they sum to B."""
    ends: Sequence[Tensor]
    """For each sentence that ends at a step, the place of its last node there."""
    by_sentence: Tensor
    """The place of each sentence in the order in which they end, shape (B,)."""


def build_trie(
    tokens: NDArray[np.int64], roots: NDArray[np.int64], device: torch.device, *, backward: bool
) -> Trie:
    """Build the trie of sentences; its tensors are int64, on a device.

    Args:
        tokens: of B sentences, none empty, as numbers, shape (B, T), -1 where one has none.
        roots: the state in which each sentence starts, shape (B,): only sentences with
            the same root can share nodes.
        backward: the sentences run from their end.
    """
    mask = tokens >= 0
    lengths = mask.sum(axis=1)
    steps = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    if backward:
        steps = np.where(mask, lengths[:, None] - 1 - steps, steps)
        tokens = np.take_along_axis(tokens, steps, axis=1)
    n_tokens = tokens.max(initial=0) + 1
    nodes, n_nodes, keys = np.empty_like(tokens), 0, []
    places = roots.copy()  # of the last node of each sentence, in its step
    for step in range(lengths.max()):
        running = np.flatnonzero(lengths > step)
        distinct, places[running] = np.unique(
            places[running] * n_tokens + tokens[running, step], return_inverse=True
        )
        nodes[running, step] = n_nodes + places[running]
        n_nodes += len(distinct)
        keys.append(distinct)
    parents, node_tokens = np.divmod(np.concatenate(keys), n_tokens)
    ended = lengths.argsort(kind="stable")  # the sentences in the order in which they end
    sizes, n_ended = list(map(len, keys)), np.bincount(lengths)[1:].tolist()
    moved = partial(torch.as_tensor, device=device)
    return Trie(
        sizes,
        node_tokens,
        torch.split(moved(parents), sizes),
        moved(np.take_along_axis(nodes, steps, axis=1)[mask]),
        n_ended,
        torch.split(moved(places[ended]), n_ended),
        moved(ended.argsort()),
    )
