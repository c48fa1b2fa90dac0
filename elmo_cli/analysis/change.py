"""Change of words between two corpora, by the measures of SemEval-2020, task 1.

    apd    mean cosine distance of all pairs of an old and a new occurrence
    prt    1 / cosine of the means of the old and the new occurrences
    jsd    Jensen-Shannon divergence, in nats, of the old and the new occurrences over clusters

Kutuzov and Giulianelli (2020), "UiO-UvA at SemEval-2020 Task 1", describe apd and prt. The
clusters follow Giulianelli et al. (2020): k-means with the number of clusters that has the best
silhouette. Affinity propagation, which Kutuzov and Giulianelli used, finds too many clusters or
does not converge.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.occurrence_matrices import Matrix, Occurrences
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_choice, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.options.analysis import CORRECTIONS, MEASURES

"""Corrections for many words: Benjamini and Hochberg's of the false discovery rate, and
Bonferroni's of the probability of any false discovery."""
MIN_OCCURRENCES: Final = 3  # per word and corpus
MAX_CLUSTERS: Final = 10
# maximum number of occurrences that are clustered; more are sampled
_MAX_CLUSTERED: Final = 2000
_PERMUTATIONS_AT_ONCE: Final = 64
_SEED: Final = 0


class Change(NamedTuple):
    """Change of a word."""

    word: str
    change: float | None
    """None for a word with fewer occurrences than `MIN_OCCURRENCES`."""
    n_old: int
    n_new: int
    p: float | None = None
    """Share of random divisions of all its occurrences with at least as much change."""
    adjusted_p: float | None = None
    """`p` adjusted for the number of words."""


def change_columns(changes: Sequence[Change]) -> list[str]:
    """Return the fields of a table of changes: all, but p only where it was computed."""
    first = changes[0] if changes else None
    optional = [
        name for name in ("p", "adjusted_p") if getattr(first, name, None) is not None
    ]
    return ["word", "change", "n_old", "n_new", *optional]


def measure_change(
    old: Occurrences,
    new: Occurrences,
    measure: str = "apd",
    *,
    permutations: int = 0,
    correction: str | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> list[Change]:
    """Measure the change of each word.

    Args:
        old, new: Vectors of the occurrences of each word, shape (n, W).
        measure: One of `MEASURES`.
        permutations: Number of random divisions of the occurrences of a word, for `Change.p`.
            Each call makes the same divisions.
        correction: One of `CORRECTIONS`, for `Change.adjusted_p`; requires `permutations`.
        on_progress: Called with 1 after each word.

    Returns:
        The words in descending order of their change. Words with too few occurrences come last.

    Raises:
        ElmoError: The measure or the correction is unknown; or scikit-learn, which `jsd` needs,
            is missing.
    """
    for name, vectors in (("old", old), ("new", new)):
        check_type(name, vectors, Mapping, "a dict of vectors, from read_occurrences")
    check_choice("measure", measure, MEASURES)
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
        if not permutations:
            raise SettingsError(f"correction {correction!r}: requires permutations")
    if measure == "jsd":
        load_extra("measure jsd", "sklearn", "sklearn")
    no_rows, changes = np.empty((0, 0)), []
    for word in dict.fromkeys([*old, *new]):
        before, after = old.get(word, no_rows), new.get(word, no_rows)
        changes.append(_measure_word(word, before, after, measure, permutations))
        (on_progress or ignore)(1)
    if correction is not None:
        adjusted = iter(
            adjust_p([each.p for each in changes if each.p is not None], correction)
        )
        changes = [
            each if each.p is None else each._replace(adjusted_p=next(adjusted))
            for each in changes
        ]
    return sorted(changes, key=lambda each: (each.change is None, -(each.change or 0)))


def adjust_p(p_values: Sequence[float], correction: str) -> list[float]:
    """Return p values adjusted by one of `CORRECTIONS`, in their order."""
    n, p = len(p_values), np.asarray(p_values, np.float64)
    adjusted = p * n
    if correction == "bh":
        order = np.argsort(-p, kind="stable")  # The largest p is first, with rank n.
        adjusted[order] = np.minimum.accumulate(adjusted[order] / np.arange(n, 0, -1))
    return list(map(float, np.minimum(1, adjusted)))


def _measure_word(
    word: str, old: Matrix, new: Matrix, measure: str, permutations: int
) -> Change:
    n_old, n_new = len(old), len(new)
    if min(n_old, n_new) < MIN_OCCURRENCES:
        return Change(word, None, n_old, n_new)
    features: Matrix = np.concatenate([old, new]).astype(np.float64)  # (n, W)
    is_old = np.arange(n_old + n_new) < n_old
    if measure == "apd":
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-30)
    if measure == "jsd":
        features, is_old = _clusters(features, is_old)
    sizes = is_old.sum(), (~is_old).sum()
    true_change, *random_changes = (
        _statistic(measure, chosen @ features, ~chosen @ features, *sizes)
        for chosen in _divisions(is_old, permutations)
    )
    # Rounding must not make the change of an equal division smaller.
    n_as_much = sum(
        int((changes >= true_change - 1e-12).sum()) for changes in random_changes
    )
    p = (1 + n_as_much) / (1 + permutations) if permutations else None
    return Change(word, float(true_change[0]), n_old, n_new, p)


def _divisions(is_old: NDArray[np.bool_], n: int) -> Iterator[NDArray[np.bool_]]:
    """Yield the true division into old and new, then blocks of rows with n random divisions."""
    random = np.random.default_rng(_SEED)
    yield is_old[np.newaxis]
    for start in range(0, n, _PERMUTATIONS_AT_ONCE):
        rows = np.tile(is_old, (min(_PERMUTATIONS_AT_ONCE, n - start), 1))
        yield random.permuted(rows, axis=1)


def _statistic(
    measure: str, old: Matrix, new: Matrix, n_old: int, n_new: int
) -> Matrix:
    """Return the change in each of P divisions, from the sums of old and new features, (P, F)."""
    changes: Matrix
    if measure == "apd":
        changes = 1 - (old * new).sum(axis=1) / (n_old * n_new)
    elif measure == "prt":
        norms = np.linalg.norm(old, axis=1) * np.linalg.norm(new, axis=1)
        with np.errstate(divide="ignore"):
            changes = norms / (old * new).sum(axis=1)
    else:
        from scipy.special import rel_entr

        p, q = old / n_old, new / n_new
        mean = (p + q) / 2
        changes = (rel_entr(p, mean) + rel_entr(q, mean)).sum(axis=1) / 2
    return changes


def _clusters(
    vectors: Matrix, is_old: NDArray[np.bool_]
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the clusters as rows with a single 1, shape (n, K), and which rows are old."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    if len(vectors) > _MAX_CLUSTERED:
        random = np.random.default_rng(_SEED)
        drawn = np.sort(random.choice(len(vectors), _MAX_CLUSTERED, replace=False))
        vectors, is_old = vectors[drawn], is_old[drawn]
    best, labels = -1.0, np.zeros(len(vectors), np.intp)
    n_distinct = len(
        np.unique(vectors, axis=0)
    )  # k-means warns if it has more clusters.
    for n_clusters in range(2, min(MAX_CLUSTERS + 1, n_distinct)):
        candidate = KMeans(n_clusters, n_init=3, random_state=_SEED).fit_predict(
            vectors
        )
        score = silhouette_score(vectors, candidate)
        if score > best:
            best, labels = score, candidate
    return np.eye(labels.max() + 1)[labels], is_old
