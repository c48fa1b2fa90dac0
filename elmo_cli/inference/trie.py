"""Trie of sentences, in which equal beginnings are computed once.

From equal states, equal tokens lead an LSTM to equal states. Therefore a batch becomes
a trie, one per direction, which branches where tokens differ:

    step            0          1            2
    the cat sat     the ---+-- cat ------- sat
    the dog                +-- dog
    a dog           a -------- dog

The nodes are stored step after step, without padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def index_tokens(
    sentences: Sequence[Sequence[str]],
) -> tuple[list[str], NDArray[np.int64]]:
    """Return distinct tokens in their order, and indices, (B, T), padded with -1."""
    index: dict[str, int] = {}
    longest = max(map(len, sentences), default=0)
    rows = np.full((len(sentences), longest), -1)
    for row, sentence in zip(rows, sentences, strict=True):
        # A token that is new gets the next index.
        numbers = [index.setdefault(token, len(index)) for token in sentence]
        row[: len(numbers)] = numbers
    return list(index), rows


@dataclass(frozen=True)
class Trie:
    """Distinct beginnings of sentences: M nodes for B sentences of N tokens."""

    sizes: list[int]
    """Number of nodes per step; they sum to M."""
    tokens: NDArray[np.int64]
    """Token of each node, (M,)."""
    parents: Tensor
    """Index of a node's parent in the step before, or of its root, int64, (M,)."""
    nodes: Tensor
    """Node of each token, sentence after sentence, int64, (N,)."""
    n_ended: list[int]
    """Number of sentences that end at each step; they sum to B."""
    ends: Tensor
    """Index in its step of a sentence's last node, as the sentences end, int64,
    (B,)."""
    by_sentence: Tensor
    """Index of each sentence in the order in which they end, int64, (B,)."""


def build_trie(
    tokens: NDArray[np.int64],
    roots: NDArray[np.int64],
    device: torch.device,
    *,
    backward: bool,
) -> Trie:
    """Build the trie of B sentences, none empty.

    Sentences share nodes only if they have one root.

    Args:
        tokens: Number of each token, shape (B, T), padded with -1.
        roots: Index of the state in which each sentence starts, shape (B,).
        device: Device of the trie's tensors.
        backward: True to read the sentences from their ends.
    """
    if len(tokens) == 1:
        [sentence] = tokens
        return _build_path(
            sentence[sentence >= 0], int(roots[0]), device, backward=backward
        )
    mask = tokens >= 0
    lengths = mask.sum(axis=1)
    mirrored: NDArray[np.int64] | None = None
    if backward:
        mirrored = _mirrored_positions(mask)
        tokens = np.take_along_axis(tokens, mirrored, axis=1)
    # From here on, column k of the tokens has those that step k reads.
    n_tokens = tokens.max(initial=0) + 1
    nodes = np.empty_like(tokens)  # node that reads each token
    last = roots.copy()  # index of each sentence's last node in its step, (B,)
    # A node is a token after a parent, as one number: parent * n_tokens + token.
    nodes_by_step = []
    n_nodes = 0
    for step in range(lengths.max()):
        running = np.flatnonzero(lengths > step)
        reached = last[running] * n_tokens + tokens[running, step]
        distinct, last[running] = np.unique(reached, return_inverse=True)
        nodes[running, step] = n_nodes + last[running]
        n_nodes += len(distinct)
        nodes_by_step.append(distinct)
    parents, node_tokens = np.divmod(np.concatenate(nodes_by_step), n_tokens)
    if mirrored is not None:
        nodes = np.take_along_axis(nodes, mirrored, axis=1)
    # Now column k of the nodes has those of the tokens at position k again.
    by_end = lengths.argsort(kind="stable")  # sentences in the order in which they end
    return Trie(
        sizes=[len(distinct) for distinct in nodes_by_step],
        tokens=node_tokens,
        parents=torch.as_tensor(parents, device=device),
        nodes=torch.as_tensor(nodes[mask], device=device),
        n_ended=np.bincount(lengths)[1:].tolist(),
        ends=torch.as_tensor(last[by_end], device=device),
        by_sentence=torch.as_tensor(by_end.argsort(), device=device),
    )


def _mirrored_positions(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions of tokens in reverse order, shape (B, T).

    They are [2, 1, 0, 3] for a sentence of 3 tokens in a row of 4: the padding stays.
    Taking along them twice gives the first order again.
    """
    positions = np.arange(mask.shape[1])
    lengths = mask.sum(axis=1, keepdims=True)  # (B, 1)
    return np.where(mask, lengths - 1 - positions, positions)


def _build_path(
    tokens: NDArray[np.int64], root: int, device: torch.device, *, backward: bool
) -> Trie:
    """Build the trie of one sentence, in a tenth of the time of a general one."""
    n_tokens = len(tokens)
    parents = torch.zeros(n_tokens, dtype=torch.int64, device=device)
    parents[0] = root
    nodes = torch.arange(n_tokens, device=device)
    if backward:
        tokens = tokens[::-1].copy()
        nodes = nodes.flip(0)
    zero = parents.new_zeros(1)
    return Trie(
        sizes=[1] * n_tokens,
        tokens=tokens,
        parents=parents,
        nodes=nodes,
        n_ended=[0] * (n_tokens - 1) + [1],
        ends=zero,
        by_sentence=zero,
    )
