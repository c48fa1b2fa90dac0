"""Sentences to batches: bounded windows, like lengths together, nothing padded.

A window is as much of the stream as is held in memory at once; within it,
sentences are grouped by length under a budget of tokens.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Sized = TypeVar("_Sized", bound=Sequence[object])


def distinct_sentences(sentences: Sequence[list[str]]) -> tuple[list[list[str]], list[int]]:
    """The sentences without those that are there already, and which of them each one is."""
    places: dict[tuple[str, ...], int] = {}
    indices = [places.setdefault(tuple(sentence), len(places)) for sentence in sentences]
    return [list(sentence) for sentence in places], indices


@dataclass(frozen=True)
class Packing:
    """How sentences of different lengths lie packed, step after step (see `lstm`)."""

    order: NDArray[np.int64]
    """The sentences by falling length, shape (B,)."""
    sizes: list[int]
    """The number of sentences that still run at each step, falling."""
    sentences: NDArray[np.int64]
    """The sentence of each packed row, shape (N,)."""
    positions: NDArray[np.int64]
    """The position of each packed row in its sentence, shape (N,)."""
    reversal: NDArray[np.int64]
    """The packed row with which each row changes place when every sentence is turned around,
    shape (N,)."""


def pack(lengths: Sequence[int] | NDArray[np.int64]) -> Packing:
    """Plan how sentences of the given lengths lie packed. Empty ones take no row."""
    all_lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-all_lengths, kind="stable")
    falling = all_lengths[order]
    n_steps = int(falling[0]) if len(falling) else 0
    # How many sentences are longer than 0, 1, ... steps.
    sizes = np.searchsorted(-falling, -np.arange(n_steps), side="left")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(np.arange(n_steps), sizes)
    ranks = np.arange(offsets[-1]) - offsets[positions]
    reversal = offsets[falling[ranks] - 1 - positions] + ranks
    return Packing(order, sizes.tolist(), order[ranks], positions, reversal)


def windows(
    sentences: Iterable[_Sized], max_tokens: int, max_sentences: int
) -> Iterator[list[_Sized]]:
    """Cut a stream into lists, each closed by the sentence that reaches a bound."""
    window: list[_Sized] = []
    n_tokens = 0
    for sentence in sentences:
        window.append(sentence)
        n_tokens += len(sentence)
        if n_tokens >= max_tokens or len(window) >= max_sentences:
            yield window
            window, n_tokens = [], 0
    if window:
        yield window


def fixed_windows(sentences: Iterable[_Sized], n_sentences: int) -> Iterator[list[_Sized]]:
    """Cut a stream into lists of `n_sentences`; the last one may have fewer."""
    stream = iter(sentences)
    while window := list(islice(stream, n_sentences)):
        yield window


def batches_by_length(
    lengths: Sequence[int],
    batch_tokens: int,
    batch_sentences: int | None = None,
    long_sentence: int | None = None,
) -> Iterator[list[int]]:
    """Group sentences of like length, longest first, under a budget.

    Args:
        lengths: tokens in each sentence.
        batch_tokens: the most tokens in a batch; a longer sentence goes alone.
        batch_sentences: the most sentences in a batch, any number if not given.
        long_sentence: a sentence of more tokens goes alone if no other has half as many.

    Yields:
        The indices of the sentences of a batch. Empty sentences are in none.
    """
    long = math.inf if long_sentence is None else long_sentence
    batch: list[int] = []
    n_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[index] == 0:
            break
        full = len(batch) == batch_sentences or n_tokens + lengths[index] > batch_tokens
        lone = len(batch) == 1 and n_tokens > max(long, 2 * lengths[index])
        if batch and (full or lone):
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
