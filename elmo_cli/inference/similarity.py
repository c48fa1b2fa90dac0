"""Similarity of words in their sentences, by the cosine of their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import FloatArray
from elmo_cli.text.occurrences import Occurrence, OccurrencePair


@dataclass(frozen=True)
class Similarity:
    """Cosine similarities of two occurrences of words, as `elmo cosine` prints them."""

    first: Occurrence
    second: Occurrence
    layers: list[float]
    """Cosine of each layer, from the token layer up."""
    average: float
    """Cosine of the mean of the chosen layers, by default of all layers."""

    def __repr__(self) -> str:
        layers = ", ".join(f"{cosine:.4f}" for cosine in self.layers)
        return (
            f"Similarity({self.first.marked!r}, {self.second.marked!r}, "
            f"layers=[{layers}], average={self.average:.4f})"
        )


def mean_of_tokens(activations: FloatArray, occurrence: Occurrence) -> FloatArray:
    """Return the vector of an occurrence: of its token, or the mean of several.

    Shape (L, T, W) becomes (L, W).
    """
    if occurrence.n_tokens == 1:
        vector: FloatArray = activations[:, occurrence.index]
        return vector
    vectors = activations[:, occurrence.positions].astype(np.float64)
    mean: FloatArray = vectors.mean(axis=1).astype(np.float32)
    return mean


def compare_vectors(
    occurrences: OccurrencePair,
    one: FloatArray,
    other: FloatArray,
    averaged: Sequence[int],
) -> Similarity:
    """Return the similarity of two occurrences from all their layers, (L, W) each.

    `averaged` are the layers whose mean is compared.
    """
    first, second = occurrences
    cosines = []
    for one_layer, other_layer in zip(one, other, strict=True):
        cosines.append(cosine_similarity(one_layer, other_layer))
    average = cosine_similarity(
        one[averaged].mean(axis=0), other[averaged].mean(axis=0)
    )
    return Similarity(first, second, layers=cosines, average=average)


def cosine_similarity(one: FloatArray, other: FloatArray) -> float:
    """Return the cosine of two vectors, shape (W,); 0 if one of them is zero."""
    one = one.astype(np.float64)
    other = other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    if not norms:
        return 0.0
    # Rounding could exceed 1.
    return float(np.clip(one @ other / norms, -1, 1))
