"""Blocks of gates, in which the kernels for whole steps read weights.

A block has n = `block` values of each gate, so that a core computes all that n cells
need while it is in the cache. Zeros fill the last block.
"""

import torch
from torch import Tensor

from elmo_cli.compiled.kernels import read_constant


def to_blocks(values: Tensor) -> Tensor:
    """Arrange the weights of gates or their bias, (4 D, ...), in blocks.

    The result has the shape (ceil(D / n), 4, n, ...). Without zeros it is a view, so
    that `CompiledLinear` copies the weights only once.
    """
    n = read_constant("block")
    gates = values.reshape(4, -1, *values.shape[1:])  # (4, D, ...)
    n_missing = -gates.shape[1] % n
    if n_missing > 0:
        zeros = gates.new_zeros(4, n_missing, *gates.shape[2:])
        gates = torch.cat([gates, zeros], dim=1)
    blocks = gates.reshape(4, -1, n, *values.shape[1:])
    return blocks.transpose(0, 1)


def from_blocks(values: Tensor, dim: int, n: int) -> Tensor:
    """Undo `to_blocks` for gates of `dim` values each, in blocks of n."""
    blocks = values.reshape(-1, 4, n, *values.shape[1:])  # (ceil(D / n), 4, n, ...)
    gates = blocks.transpose(0, 1).flatten(1, 2)  # (4, ceil(D / n) * n, ...)
    return gates[:, :dim].flatten(0, 1)
