"""How well a model tells the senses of a word apart.

    python benchmarks/senses.py [MODEL]

Two lists in tests/data, each of words with two senses and the same number of
sentences for both. `senses_typical.tsv` has typical uses. `senses_balanced.tsv` is
harder: the k-th sentences of both senses are built alike, with the word in a like
place, so that only the sense tells them apart; such pairs are left out. For each
word, pairs of its sentences are compared by the cosine of the word's vectors. The
figure is how often a pair of one sense is nearer than a pair of two senses: 0.5 is
chance, 1 is perfect.
"""

import csv
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from elmo_cli import ElmoEmbedder
from elmo_cli.similarity import Similarity, find_occurrence, similarities

DATA = Path(__file__).parent.parent / "tests" / "data"
LISTS = {"typical": False, "balanced": True}
"""Each list, and whether sentences in the same place of both senses are built alike."""

Rows = list[dict[str, str]]


def main() -> None:
    """Print the figure of each layer and of their average: of all words, and of each."""
    embedder = ElmoEmbedder(model=sys.argv[1] if len(sys.argv) > 1 else None)
    names = [*(f"layer {k}" for k in range(embedder.options.n_layers)), "average"]
    for name, balanced in LISTS.items():
        scores = rank_by_sense(embedder, read_sentences(name), balanced=balanced)
        scores["all"] = np.mean(list(scores.values()), axis=0).tolist()
        print("\t".join([name, *names]))
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
    """For each word, the figure of each layer and of the average of all."""
    return {word: _rank(embedder, word, rows, balanced) for word, rows in words.items()}


def _rank(embedder: ElmoEmbedder, word: str, rows: Rows, balanced: bool) -> list[float]:
    n_alike = len(rows) // 2 if balanced else len(rows)
    pairs = [
        (one, other)
        for (i, one), (j, other) in combinations(enumerate(rows), 2)
        if (j - i) % n_alike
    ]
    occurrences = [
        tuple(find_occurrence(row["sentence"].split(), word) for row in pair) for pair in pairs
    ]
    same = np.array([one["sense"] == other["sense"] for one, other in pairs])
    found = similarities(embedder, [(first, second) for first, second in occurrences])
    cosines = np.array([_all_cosines(similarity) for similarity in found])  # (pairs, L + 1)
    nearer = cosines[same][:, None] > cosines[~same][None]
    tied = cosines[same][:, None] == cosines[~same][None]
    figures: list[float] = (nearer + 0.5 * tied).mean(axis=(0, 1)).tolist()
    return figures


def _all_cosines(similarity: Similarity) -> list[float]:
    return [*similarity.layers, similarity.average]


if __name__ == "__main__":
    main()
