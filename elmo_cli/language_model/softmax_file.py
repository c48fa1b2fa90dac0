"""File of a softmax, softmax.hdf5: a vector and a bias per word that a biLM predicts.

    softmax/W    (V, P)    float32 or float16; V words, P the projection_dim
    softmax/b    (V,)

The published models have this file next to their weights, for both directions.
Safetensors have these names too. The rows are in the order of the vocabulary.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.arrays import FloatArray
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.model.tensor_files import (
    SOFTMAX,
    is_finite,
    open_tensors,
    write_tensors,
)

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"


class SoftmaxRows(NamedTuple):
    """Softmax of R consecutive words of the vocabulary."""

    first: int
    """Index of the first word."""
    weight: Tensor
    """Vectors, float32, shape (R, P)."""
    bias: Tensor
    """float32, shape (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Raise a `WeightsError` unless a softmax fits a vocabulary and a biLM."""
    with open_tensors(path) as file:
        file.check_kind(SOFTMAX)
        file.check_shapes(
            {WEIGHT: (n_words, dim), BIAS: (n_words,)},
            f"a vocabulary of {n_words:,} words and a projection_dim of {dim}",
        )


def read_rows(path: str | Path, n_rows: int) -> Iterator[SoftmaxRows]:
    """Read a checked softmax, `n_rows` words at a time, to limit memory."""
    with open_tensors(path) as file:
        biases = torch.from_numpy(file.read(BIAS))
        for first in range(0, len(biases), n_rows):
            bias = biases[first : first + n_rows]
            end = first + len(bias)
            weight = torch.from_numpy(file.read(WEIGHT, slice(first, end)))
            if not is_finite(weight) or not is_finite(bias):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {end - 1}"
                )
            yield SoftmaxRows(first, weight, bias)


def read_word_vectors(path: str | Path, words: NDArray[np.int64]) -> FloatArray:
    """Read the vectors of words, shape (N, P), by their indices."""
    # Consecutive words are read together: [3, 4, 5, 9] as [3, 4, 5] and [9].
    starts = np.flatnonzero(np.diff(words) != 1) + 1
    runs = np.split(words, starts)
    vectors = []
    with open_tensors(path) as file:
        for run in runs:
            rows = slice(run[0], run[-1] + 1)
            vectors.append(file.read(WEIGHT, rows))
    return np.concatenate(vectors)


def write_softmax(
    path: str | Path, weight: FloatArray, bias: FloatArray, dtype: str = "float32"
) -> None:
    """Write a softmax, shapes (V, P) and (V,), to a file.

    Its suffix chooses HDF5 or safetensors. `dtype` is `float32` or `float16`.
    """
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)
