"""Measures of change between old and new occurrences, of SemEval-2020, task 1.

    apd    mean cosine distance of all pairs of an old and a new occurrence
    prt    1 / cosine of the means of the old and the new occurrences
    jsd    Jensen-Shannon divergence, in nats, of the old and new ones over clusters

Kutuzov and Giulianelli (2020), "UiO-UvA at SemEval-2020 Task 1", describe apd and prt.
The clusters follow Giulianelli et al. (2020): k-means with the number of clusters that
has the best silhouette. Affinity propagation, which Kutuzov and Giulianelli used, finds
too many clusters or does not converge.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.change.occurrence_matrices import Matrix

MAX_CLUSTERS: Final = 10
_MAX_CLUSTERED: Final = 2000
"""Maximum number of occurrences that are clustered; more are sampled."""
_PERMUTATIONS_AT_ONCE: Final = 64
_SEED: Final = 0

_IsOld = NDArray[np.bool_]


def changes_of_divisions(
    old: Matrix, new: Matrix, measure: str, permutations: int
) -> Iterator[Matrix]:
    """Yield the change between occurrences of a word, and between random parts of them.

    Args:
        old, new: Vectors of the occurrences, shapes (n_old, W) and (n_new, W).
        measure: "apd", "prt" or "jsd".
        permutations: Number of random divisions of all occurrences into two parts of
            the same sizes.

    Yields:
        The change, shape (1,), then the changes in blocks of P random divisions, shape
        (P,).
    """
    features: Matrix = np.concatenate([old, new]).astype(np.float64)  # (n, W)
    is_old = np.arange(len(features)) < len(old)
    if measure == "apd":
        norms = np.linalg.norm(features, axis=1, keepdims=True)
        features /= np.maximum(norms, 1e-30)
    elif measure == "jsd":
        features, is_old = _clusters(features, is_old)
    n_old = is_old.sum()
    n_new = (~is_old).sum()
    for chosen in _divisions(is_old, permutations):
        old_sums = chosen @ features  # (P, F)
        new_sums = ~chosen @ features
        if measure == "apd":
            # The product of the sums is the sum of the products of all pairs, and that
            # of two vectors with norm 1 is their cosine.
            sums_of_cosines = (old_sums * new_sums).sum(axis=1)
            yield 1 - sums_of_cosines / (n_old * n_new)
        elif measure == "prt":
            yield _inverse_cosines(old_sums, new_sums)
        else:
            yield _divergences(old_sums / n_old, new_sums / n_new)


def _divisions(is_old: _IsOld, n: int) -> Iterator[_IsOld]:
    """Yield the true division into old and new, then blocks of n random divisions.

    Each has the shape (P, number of occurrences), and P is 1 for the true one.
    """
    random = np.random.default_rng(_SEED)
    yield is_old[np.newaxis]
    for start in range(0, n, _PERMUTATIONS_AT_ONCE):
        n_rows = min(_PERMUTATIONS_AT_ONCE, n - start)
        yield random.permuted(np.tile(is_old, (n_rows, 1)), axis=1)


def _inverse_cosines(old_sums: Matrix, new_sums: Matrix) -> Matrix:
    norms = np.linalg.norm(old_sums, axis=1) * np.linalg.norm(new_sums, axis=1)
    with np.errstate(divide="ignore"):
        inverse: Matrix = norms / (old_sums * new_sums).sum(axis=1)
    return inverse


def _divergences(p: Matrix, q: Matrix) -> Matrix:
    """Return the Jensen-Shannon divergences of n pairs of distributions.

    `p` and `q` have a column per cluster, shape (n, m); the result is (n,).
    """
    from scipy.special import rel_entr

    mean = (p + q) / 2
    of_both = rel_entr(p, mean) + rel_entr(q, mean)  # (n, m)
    divergences: Matrix = of_both.sum(axis=1) / 2
    return divergences


def _clusters(vectors: Matrix, is_old: _IsOld) -> tuple[Matrix, _IsOld]:
    """Return clusters as rows with a single 1, (n, m), and which vectors are old."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    if len(vectors) > _MAX_CLUSTERED:
        random = np.random.default_rng(_SEED)
        drawn = np.sort(random.choice(len(vectors), _MAX_CLUSTERED, replace=False))
        vectors = vectors[drawn]
        is_old = is_old[drawn]
    best_score = -1.0
    best_labels = np.zeros(len(vectors), np.intp)
    # k-means warns if it has more clusters than distinct vectors.
    n_distinct = len(np.unique(vectors, axis=0))
    for n_clusters in range(2, min(MAX_CLUSTERS + 1, n_distinct)):
        kmeans = KMeans(n_clusters, n_init=3, random_state=_SEED)
        labels = kmeans.fit_predict(vectors)
        score = silhouette_score(vectors, labels)
        if score > best_score:
            best_score = score
            best_labels = labels
    return np.eye(best_labels.max() + 1)[best_labels], is_old
