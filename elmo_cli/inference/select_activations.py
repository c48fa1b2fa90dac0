"""Selection of activations: layers are chosen or mixed, pooled, and normalized."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.arrays import AnyArray, FloatArray
from elmo_cli.inference.batching import split_by_size
from elmo_cli.options.layers import NAMED_LAYERS, NamedLayers
from elmo_cli.options.selection import Selection

CHOSEN_TOKENS: Final = 512
"""Tokens whose layers are chosen together on the CPU, while they are in its cache."""


def selected_arrays(
    selection: Selection, layers: Tensor, lengths: Sequence[int], dtype: str
) -> tuple[list[AnyArray], bool]:
    """Compute the activations of a batch in a data type.

    Args:
        selection: Layers, pooling and normalization.
        layers: float, shape (L, N, W), sentence after sentence of at least one token.
        lengths: Number of tokens of each sentence.
        dtype: Data type of the arrays.

    Returns:
        One array per sentence, (n, T, W), or (T, W) for one layer; pooled (n, W), or
        (W,). For `word_emb`, W / 2 replaces W. The arrays share memory. Also whether
        all values are finite.
    """
    arrays: list[AnyArray] = []
    are_finite = True
    max_tokens = CHOSEN_TOKENS if layers.device.type == "cpu" else sys.maxsize
    start = 0
    for chunk in split_by_size(
        lengths, max_tokens=max_tokens, max_sentences=sys.maxsize, length=int
    ):
        end = start + sum(chunk)
        selected = _select(selection, layers[:, start:end].float(), chunk)
        values = selected.to(getattr(torch, dtype)).to("cpu")
        # The sum of finite values may overflow.
        if not values.sum().isfinite():
            are_finite &= bool(torch.stack(values.aminmax()).isfinite().all())
        if selection.pooling is None:
            arrays += _split_tokens(values.numpy(), chunk)
        else:
            arrays += _split_sentences(values.numpy())
        start = end
    return arrays, are_finite


def _split_tokens(values: AnyArray, lengths: Sequence[int]) -> Iterator[AnyArray]:
    """Yield the array of each sentence from those of all tokens, ([n,] N, W)."""
    start = 0
    for length in lengths:
        end = start + length
        yield values[..., start:end, :]
        start = end


def _split_sentences(values: AnyArray) -> Iterator[AnyArray]:
    """Yield the array of each of B pooled sentences, ([n,] B, W)."""
    for index in range(values.shape[-2]):
        yield values[..., index, :]


def _select(selection: Selection, layers: Tensor, lengths: Sequence[int]) -> Tensor:
    """Choose layers, pool tokens, and normalize vectors."""
    values = choose_layers(selection, layers)  # ([n,] N, W)
    if selection.pooling is not None:
        if values.device.type == "mps":
            values = values.to("cpu")  # Not all versions of torch can pool on MPS.
        values = pool_tokens(values, lengths, selection.pooling)  # ([n,] B, W)
    if selection.normalize:
        values = functional.normalize(values, dim=-1)
    return values


def pool_record(selection: Selection, values: FloatArray) -> FloatArray:
    """Pool the tokens of one record, float32, shape ([n,] T, W), to ([n,] W).

    Without tokens, return zeros.
    """
    *n_layers, n_tokens, width = values.shape
    if n_tokens == 0:
        return np.zeros((*n_layers, width), np.float32)
    tokens = torch.from_numpy(values)
    pooled = pool_tokens(tokens, [n_tokens], str(selection.pooling))  # ([n,] 1, W)
    pooled = pooled[..., 0, :]
    if selection.normalize:
        pooled = functional.normalize(pooled, dim=-1)
    array: FloatArray = pooled.numpy()
    return array


def choose_layers(selection: Selection, layers: Tensor) -> Tensor:
    """Choose or mix layers, (L, N, W), to (n, N, W) for n layers, else (N, W).

    For `word_emb`, W / 2 replaces W.
    """
    if selection.mix is not None:
        parameters = torch.tensor(selection.mix, device=layers.device)
        weights = selection.gamma * parameters.softmax(dim=0)  # (L,)
        return (weights[:, None, None] * layers).sum(dim=0)  # (N, W)
    if selection.numbers is None:
        return _choose_named(NAMED_LAYERS[selection.layers], layers)
    numbers = torch.tensor(selection.numbers, device=layers.device)
    chosen = layers[numbers]  # (n, N, W)
    return chosen[0] if len(numbers) == 1 else chosen


def _choose_named(named: NamedLayers, layers: Tensor) -> Tensor:
    """Choose layers by their name, (L, N, W), to (L, N, W) for `all`, else (N, W)."""
    if named.which == "token":
        # Layer 0 is the token vector, twice side by side.
        return layers[0, :, : layers.shape[-1] // 2]
    if named.which == "top":
        return layers[-1]
    if named.joined_by == "mean":
        return layers.mean(dim=0)
    if named.joined_by == "sum":
        return layers.sum(dim=0)
    return layers


def pool_tokens(values: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """Pool the tokens of B sentences, none empty: float, ([n,] N, W) to ([n,] B, W)."""
    counts = torch.tensor(lengths, dtype=torch.int64, device=values.device)  # (B,)
    ends = counts.cumsum(0)
    if pooling == "first":
        return values[..., ends - counts, :]
    if pooling == "last":
        return values[..., ends - 1, :]
    # The vectors of all layers are one table, and each sentence of a layer is a bag of
    # its rows. On the CPU this is 2 to 100 times as fast as torch.segment_reduce. No
    # sum depends on another sentence.
    table = values.reshape(-1, values.shape[-1])  # (n N, W)
    rows = torch.arange(len(table), device=values.device)
    n_tokens = sum(lengths)
    layer_starts = rows[::n_tokens, None]  # (n, 1)
    sentence_starts = ends - counts  # (B,)
    bag_starts = layer_starts + sentence_starts  # (n, B)
    pooled = functional.embedding_bag(rows, table, bag_starts.flatten(), mode=pooling)
    return pooled.reshape(*values.shape[:-2], len(lengths), -1)
