"""softmax.hdf5: a vector and a bias for each word that a biLM predicts.

    softmax/W    (V, P)    float32 or float16; V words, P the projection_dim
    softmax/b    (V,)

The published models have it in this form, apart from their weights; both directions
share it. Safetensors have the same names. The rows are in the order of the vocabulary.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import WeightsError
from elmo_cli.model.tensor_files import TensorFile, open_tensors, write_tensors

Array = NDArray[np.float32]

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"


class SoftmaxRows(NamedTuple):
    """The softmax of some words that follow one another in the vocabulary."""

    first: int
    """The number of the first of them."""
    weight: Array
    """Shape (R, P)."""
    bias: Array
    """Shape (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Make sure that a softmax fits a vocabulary and a biLM; no value is read.

    Args:
        path: HDF5, or safetensors by its name.
        n_words: the size of the vocabulary.
        dim: the `projection_dim` of the biLM.

    Raises:
        WeightsError: it is missing, cut off, no softmax, or does not fit.
    """
    with open_tensors(path) as file:
        if "softmax" not in file:
            raise WeightsError(f"{path}: {_other_kind(file)}")
        expected = {WEIGHT: (n_words, dim), BIAS: (n_words,)}
        mismatches = [
            f"{name}: expected {shape}, found {found}"
            for name, shape in expected.items()
            if (found := file.describe(name)) != f"{shape}"
        ]
    if mismatches:
        raise WeightsError(
            f"{path} does not fit a vocabulary of {n_words:,} words and a projection_dim of "
            f"{dim}: {'; '.join(mismatches)}"
        )


def read_softmax(path: str | Path, n_words: int, dim: int) -> tuple[Array, Array]:
    """Read a whole softmax.

    Returns:
        The vectors, float32, shape (V, P), and the biases, float32, shape (V,).

    Raises:
        WeightsError: see `check_softmax`; or values are not finite.
    """
    check_softmax(path, n_words, dim)
    weight, bias = np.empty((n_words, dim), np.float32), np.empty(n_words, np.float32)
    for rows in read_rows(path, 8192):
        last = rows.first + len(rows.bias)
        weight[rows.first : last], bias[rows.first : last] = rows.weight, rows.bias
    return weight, bias


def read_rows(path: str | Path, n_rows: int) -> Iterator[SoftmaxRows]:
    """Read a softmax that was checked, `n_rows` words at a time, so that little is in memory.

    Raises:
        WeightsError: the file is damaged, or values are not finite.
    """
    with open_tensors(path) as file:
        n_words = file.shape(BIAS)[0]
        for first in range(0, n_words, n_rows):
            last = min(first + n_rows, n_words)
            weight = file.read_rows(WEIGHT, first, last)
            bias = file.read_rows(BIAS, first, last)
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {last - 1}"
                )
            yield SoftmaxRows(first, weight, bias)


def read_vectors(path: str | Path, words: NDArray[np.int64]) -> Array:
    """Read the vectors of some words of a softmax that was checked.

    Args:
        path: as in `check_softmax`.
        words: their numbers in the vocabulary, shape (N,); quick where they follow one another.

    Returns:
        float32, shape (N, P).

    Raises:
        WeightsError: the file is damaged.
    """
    runs = np.split(words, np.flatnonzero(np.diff(words) != 1) + 1)
    with open_tensors(path) as file:
        vectors = [file.read_rows(WEIGHT, run[0], run[-1] + 1) for run in runs]
    return np.concatenate(vectors)


def write_softmax(path: str | Path, weight: Array, bias: Array, dtype: str = "float32") -> None:
    """Write a softmax, HDF5 or safetensors, which appears under its name when it is complete.

    Args:
        path: ends in `.safetensors`, or it is HDF5.
        weight: float, shape (V, P).
        bias: float, shape (V,).
        dtype: of the values in the file, `float32` or `float16`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)


def _other_kind(file: TensorFile) -> str:
    if any(name in file for name in ("char_embed", "embedding", "RNN_0")):
        return "expected a softmax, found the weights of a biLM"
    names = ", ".join(sorted({name.split("/")[0] for name in file.names()})[:5]) or "nothing"
    return f"expected a softmax (softmax/W and softmax/b), found {names}"
