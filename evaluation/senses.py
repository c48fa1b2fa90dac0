"""How well a model tells the senses of a word apart.

    python evaluation/senses.py [MODEL]

Two lists in tests/data, each of words with two senses and the same number of
sentences for both. `senses_typical.tsv` has typical uses. `senses_balanced.tsv` is
harder: the k-th sentences of both senses are built alike, with the word in a like
place, so that only the sense tells them apart; such pairs are left out. For each
word, pairs of its sentences are compared by the cosine of the word's vectors. Two figures:

pairs: how often a pair of one sense is nearer than a pair of two senses. 0.5 is chance.

nearest: how often the sentence that is nearest to a sentence has the same sense. All are
equally near on layer 0, so that its figure is chance.
"""

import csv
import sys
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder
from elmo_cli.analysis.cosine import Similarity, find_occurrence, similarities

DATA = Path(__file__).parent.parent / "tests" / "data"
LISTS = {"typical": False, "balanced": True}
"""Each list, and whether sentences in the same place of both senses are built alike."""

Rows = list[dict[str, str]]


def main() -> None:
    """Print the figures of each layer and of their average: of all words, and of each."""
    embedder = ElmoEmbedder(model=sys.argv[1] if len(sys.argv) > 1 else None)
    names = [*(f"layer {k}" for k in range(embedder.options.n_layers)), "average"]
    for name, balanced in LISTS.items():
        for figure, measure in (("pairs", rank_by_sense), ("nearest", find_nearest)):
            scores = measure(embedder, read_sentences(name), balanced=balanced)
            scores["all"] = np.mean(list(scores.values()), axis=0).tolist()
            print("\t".join([f"{name}, {figure}", *names]))
            for word, figures in scores.items():
                print("\t".join([word, *(f"{figure:.3f}" for figure in figures)]))


def read_sentences(name: str) -> dict[str, Rows]:
    """The sentences of each word of a list, with their sense."""
    words: dict[str, Rows] = {}
    with open(DATA / f"senses_{name}.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            words.setdefault(row["word"], []).append(row)
    return words


def rank_by_sense(
    embedder: ElmoEmbedder, words: dict[str, Rows], *, balanced: bool
) -> dict[str, list[float]]:
    """For each word, how pairs rank by each layer and by the average of all."""
    return {word: _rank(_compare(embedder, word, words[word], balanced)) for word in words}


def find_nearest(
    embedder: ElmoEmbedder, words: dict[str, Rows], *, balanced: bool
) -> dict[str, list[float]]:
    """For each word, how often the nearest sentence has the same sense, by each layer."""
    return {word: _nearest(_compare(embedder, word, words[word], balanced)) for word in words}


class Pairs(NamedTuple):
    """The pairs of a word's sentences that are compared."""

    numbers: NDArray[np.int64]
    """The two sentences, shape (P, 2)."""
    same: NDArray[np.bool_]
    """Whether they have the same sense, shape (P,)."""
    cosines: NDArray[np.float64]
    """Of each layer, and of the average of all, shape (P, L + 1)."""


def _compare(embedder: ElmoEmbedder, word: str, rows: Rows, balanced: bool) -> Pairs:
    n_alike = len(rows) // 2 if balanced else len(rows)
    numbers = [(i, j) for i, j in combinations(range(len(rows)), 2) if (j - i) % n_alike]
    occurrences = [find_occurrence(row["sentence"].split(), word) for row in rows]
    found = similarities(embedder, [(occurrences[i], occurrences[j]) for i, j in numbers])
    return Pairs(
        np.array(numbers),
        np.array([rows[i]["sense"] == rows[j]["sense"] for i, j in numbers]),
        np.array([_all_cosines(similarity) for similarity in found]),
    )


def _rank(pairs: Pairs) -> list[float]:
    same, other = pairs.cosines[pairs.same][:, None], pairs.cosines[~pairs.same][None]
    figures: list[float] = ((same > other) + 0.5 * (same == other)).mean(axis=(0, 1)).tolist()
    return figures


def _nearest(pairs: Pairs) -> list[float]:
    """Where several are nearest alike, the share of them that has the same sense."""
    shares = []
    for number in np.unique(pairs.numbers):
        of_this = (pairs.numbers == number).any(axis=1)
        cosines = pairs.cosines[of_this]  # (P', L + 1)
        best = cosines == cosines.max(axis=0)
        shares.append((best & pairs.same[of_this][:, None]).sum(axis=0) / best.sum(axis=0))
    figures: list[float] = np.mean(shares, axis=0).tolist()
    return figures


def _all_cosines(similarity: Similarity) -> list[float]:
    return [*similarity.layers, similarity.average]


if __name__ == "__main__":
    main()
