"""Similarity of words in their sentences, by the cosine of their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.occurrences import Occurrence, OccurrencePair
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.checks import check_batch, check_type


@dataclass(frozen=True)
class Similarity:
    """Cosine similarities of two occurrences."""

    first: Occurrence
    second: Occurrence
    layers: list[float]
    """Cosine of each layer, from the token layer up."""
    average: float
    """Cosine of the averages of all layers."""


def similarities(
    embedder: ElmoEmbedder, pairs: Sequence[OccurrencePair]
) -> list[Similarity]:
    """Compare the vectors of pairs of occurrences.

    Args:
        embedder: Model. It embeds all sentences together.
        pairs: Two occurrences each, from `find_occurrence`.

    Returns:
        The cosines of each pair, for each layer and for their average.
    """
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    for index, pair in enumerate(check_batch(pairs, "pairs")):
        name = f"pairs[{index}]"
        for occurrence in check_batch(pair, name):
            check_type(name, occurrence, Occurrence, "two results of find_occurrence")
    sentences = (occurrence.sentence for pair in pairs for occurrence in pair)
    embedded = list(embedder.embed_sentences(sentences))
    results = []
    for number, (first, second) in enumerate(pairs):
        one = embedded[2 * number][:, first.index]  # (L, W)
        other = embedded[2 * number + 1][:, second.index]
        cosines = []
        for one_layer, other_layer in zip(one, other, strict=True):
            cosines.append(cosine_similarity(one_layer, other_layer))
        average = cosine_similarity(one.mean(axis=0), other.mean(axis=0))
        results.append(Similarity(first, second, cosines, average))
    return results


def cosine_similarity(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the cosine of two vectors, shape (W,); 0 if one of them is zero."""
    one = one.astype(np.float64)
    other = other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else 0.0
