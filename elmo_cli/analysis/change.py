"""How much words have changed between two corpora, by the measures of SemEval-2020, task 1.

    apd    mean cosine distance of all pairs of an old and a new use
    prt    1 / cosine of the means of the old and the new uses
    jsd    Jensen-Shannon divergence, in nats, of the old and the new uses over clusters of all

Kutuzov and Giulianelli (2020), "UiO-UvA at SemEval-2020 Task 1"; the clusters are those of
Giulianelli et al. (2020), k-means with the number of clusters that has the best silhouette. (The
former took affinity propagation, which finds too many, or does not converge.)
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.uses import find_uses
from elmo_cli.errors import InputError, check_choice, load_extra, shown
from elmo_cli.outputs.reader import open_activations
from elmo_cli.outputs.streams import RECORDS

MEASURES: Final = ("apd", "prt", "jsd")
_SAME: Final = ("model_sha256", "state", "layers", "mix", "gamma", "tokenizer")
"""Attributes in which the files of both corpora agree."""
MIN_USES: Final = 3
"""Words with fewer in one of the corpora are left out."""
MAX_CLUSTERS: Final = 10
_MAX_CLUSTERED: Final = 2000
"""Uses that are clustered; of more, so many are drawn."""
_PERMUTATIONS_AT_ONCE: Final = 64
_SEED: Final = 0

Matrix = NDArray[np.floating]
Uses = dict[str, Matrix]
"""The vectors of the uses of each word, shape (n, W)."""
_Statistic = Callable[[Matrix, Matrix, int, int], Matrix]


class Change(NamedTuple):
    """How much a word has changed."""

    word: str
    change: float | None
    """None for a word with fewer uses than `MIN_USES`."""
    n_old: int
    n_new: int
    p: float | None = None
    """The share of random divisions of all its uses, into as many, with as much change."""


def read_uses(
    old: str | Path,
    new: str | Path,
    words: Mapping[str, str] | None = None,
    layers: str | None = None,
) -> tuple[Uses, Uses]:
    """Read the uses of words in two files.

    Args:
        old, new: of `elmo embed`, with all tokens or with the words of `--words` only; or npz with
            a matrix a word.
        words: the forms of the words that are wanted, and the word of each; in npz, those words.
            If not given, those that the files name.
        layers: of the files, by numbers with commas between, whose mean is taken; if not given,
            all but the token layer.

    Raises:
        InputError: a file cannot be read, or the two are of different models or settings.
    """
    found: list[Uses] = []
    made: list[dict[str, Any]] = []
    for path in (old, new):
        if Path(path).suffix == ".npz":
            if layers is not None:
                raise InputError(f"{path}: layers {layers!r}: npz has one matrix a word")
            found.append(_read_npz(path, words))
            continue
        with open_activations(path) as activations:
            wanted = words or json.loads(activations.attributes.get("words", "{}"))
            if not wanted:
                raise InputError(f"{path}: expected words, found none; --words names some")
            made.append(activations.attributes)
            uses = find_uses(activations, wanted, layers)
            found.append({w: np.stack([u.vector for u in us]) for w, us in uses.items() if us})
    for name in _SAME if len(made) == 2 else ():
        there, here = (attributes.get(name) for attributes in made)
        if there != here:
            raise InputError(
                f"{new} cannot be compared with {old}: {name} is {shown(here)}, not {shown(there)}"
            )
    first, second = found
    widths = {matrix.shape[1] for uses in found for matrix in uses.values() if len(matrix)}
    if len(widths) > 1:
        width, other = sorted(widths)
        raise InputError(f"{old} and {new}: expected vectors of one width, found {width}, {other}")
    return first, second


def _read_npz(path: str | Path, words: Mapping[str, str] | None) -> Uses:
    """The matrices of a file of NumPy."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            is_of_lines = RECORDS in arrays or list(arrays) == [str(n) for n in range(len(arrays))]
            wanted = None if words is None else set(words.values())
            uses = {name: arrays[name] for name in arrays if wanted is None or name in wanted}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path}: expected npz with a matrix a word: {error}") from None
    if is_of_lines:
        raise InputError(
            f"{path}: expected a matrix a word, found one a line; `elmo embed --words` writes the "
            "former"
        )
    for name, matrix in uses.items():
        if matrix.ndim != 2 or matrix.dtype.kind != "f":
            raise InputError(
                f"{path}: expected a matrix a word, a row a use, found {name} with {matrix.dtype} "
                f"values of the shape {matrix.shape}; --layers top gives such"
            )
    return uses


def measure_change(
    old: Uses, new: Uses, measure: str = "apd", *, permutations: int = 0
) -> list[Change]:
    """Measure how much each word has changed.

    Args:
        old, new: the uses of each word, shape (n, W).
        measure: one of `MEASURES`.
        permutations: how often the uses of a word are divided at random, for `Change.p`; the same
            divisions each time.

    Returns:
        The words, those that changed most first, those with too few uses last.

    Raises:
        ElmoError: there is no such measure, or scikit-learn, which `jsd` takes, is missing.
    """
    check_choice("measure", measure, MEASURES)
    if measure == "jsd":
        load_extra("measure jsd", "sklearn", "sklearn")
    nothing = np.empty((0, 0))
    changes = [
        _change(word, old.get(word, nothing), new.get(word, nothing), measure, permutations)
        for word in dict.fromkeys([*old, *new])
    ]
    return sorted(changes, key=lambda found: (found.change is None, -(found.change or 0)))


def _change(word: str, old: Matrix, new: Matrix, measure: str, permutations: int) -> Change:
    n_old, n_new = len(old), len(new)
    if min(n_old, n_new) < MIN_USES:
        return Change(word, None, n_old, n_new)
    features: Matrix = np.concatenate([old, new]).astype(np.float64)  # (n, W)
    is_old = np.arange(n_old + n_new) < n_old
    if measure == "apd":
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-30)
    if measure == "jsd":
        features, is_old = _clusters(features, is_old)
    statistic = _STATISTICS[measure]
    sizes = is_old.sum(), (~is_old).sum()
    found, *others = (
        statistic(chosen @ features, ~chosen @ features, *sizes)
        for chosen in _divisions(is_old, permutations)
    )
    # Rounding must not make a division that is the same one less.
    n_as_much = sum(int((changes >= found - 1e-12).sum()) for changes in others)
    p = (1 + n_as_much) / (1 + permutations) if permutations else None
    return Change(word, float(found[0]), n_old, n_new, p)


def _divisions(is_old: NDArray[np.bool_], n: int) -> Iterator[NDArray[np.bool_]]:
    """The true division of uses into old and new, and n random ones: some rows at a time."""
    random = np.random.default_rng(_SEED)
    yield is_old[np.newaxis]
    for start in range(0, n, _PERMUTATIONS_AT_ONCE):
        rows = np.tile(is_old, (min(_PERMUTATIONS_AT_ONCE, n - start), 1))
        yield random.permuted(rows, axis=1)


def _apd(old: Matrix, new: Matrix, n_old: int, n_new: int) -> Matrix:
    """From the sums of unit vectors, shape (P, W): the pairs need not be made."""
    distance: Matrix = 1 - (old * new).sum(axis=1) / (n_old * n_new)
    return distance


def _prt(old: Matrix, new: Matrix, n_old: int, n_new: int) -> Matrix:
    """From the sums of vectors, shape (P, W), which have the directions of the means."""
    norms = np.linalg.norm(old, axis=1) * np.linalg.norm(new, axis=1)
    with np.errstate(divide="ignore"):
        inverse: Matrix = norms / (old * new).sum(axis=1)
    return inverse


def _jsd(old: Matrix, new: Matrix, n_old: int, n_new: int) -> Matrix:
    """From the numbers of uses in each cluster, shape (P, K)."""
    from scipy.special import rel_entr

    p, q = old / n_old, new / n_new
    mean = (p + q) / 2
    divergence: Matrix = (rel_entr(p, mean) + rel_entr(q, mean)).sum(axis=1) / 2
    return divergence


_STATISTICS: Final[dict[str, _Statistic]] = {"apd": _apd, "prt": _prt, "jsd": _jsd}


def _clusters(vectors: Matrix, is_old: NDArray[np.bool_]) -> tuple[Matrix, NDArray[np.bool_]]:
    """The cluster of each use as a row with one 1, shape (n, K), and which uses are old."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    if len(vectors) > _MAX_CLUSTERED:
        random = np.random.default_rng(_SEED)
        drawn = np.sort(random.choice(len(vectors), _MAX_CLUSTERED, replace=False))
        vectors, is_old = vectors[drawn], is_old[drawn]
    best, labels = -1.0, np.zeros(len(vectors), np.intp)
    # k-means finds no more clusters than there are different vectors, and warns of fewer.
    n_distinct = len(np.unique(vectors, axis=0))
    for n_clusters in range(2, min(MAX_CLUSTERS + 1, n_distinct)):
        found = KMeans(n_clusters, n_init=3, random_state=_SEED).fit_predict(vectors)
        score = silhouette_score(vectors, found)
        if score > best:
            best, labels = score, found
    return np.eye(labels.max() + 1)[labels], is_old
