"""Two hand-made lists of words with two senses, which need no other data.

Each word of `tests/data/senses_*.tsv` has the same number of sentences for both senses.
The list `typical` has typical sentences. In the list `balanced` the k-th sentences of
both senses have the same structure, so that only the sense tells them apart; such pairs
of sentences are not compared.

The figure: how often two sentences of one sense are nearer than two sentences of
different senses, by the cosine of the word's vectors. 50 % is chance, which layer 0 has
by construction.
"""

import csv
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from evaluation.bootstrap import Floats, mean_of_groups
from evaluation.tables import Cell, Table, figures
from evaluation.token_style import Embedder

DATA = Path(__file__).parent.parent / "tests" / "data"
LISTS = ("typical", "balanced")
_EQUAL = 1e-6
"""Cosines that differ by less are equal."""


def evaluate(embedder: Embedder) -> Table:
    """Return the table: a row per list, a column per layer or mean of layers."""
    rows: dict[str, Sequence[Cell]] = {}
    names: list[str] = []
    for name in LISTS:
        words = read_sentences(name)
        shares = np.stack(
            [
                rank_pairs(embedder, word, words[word], balanced=name == "balanced")
                for word in words
            ]
        )
        top = shares.shape[1] - 3
        names = [f"layer {layer}" for layer in range(top + 1)]
        differences = shares[:, [top]] - shares[:, [min(1, top)]]
        estimate = mean_of_groups(
            np.hstack([shares, differences]), np.arange(len(shares))
        )
        rows[name] = figures(estimate)
    columns = [
        *names,
        "mean above layer 0",
        "mean of all layers",
        "top layer minus layer 1",
    ]
    note = (
        "How often two sentences of one sense are nearer than two of different senses. "
        "50 is chance. 12 words per list; intervals draw words."
    )
    return Table("Lists of senses", note, columns, rows)


def read_sentences(name: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the sense and the tokens of each sentence of each word of a list."""
    words: dict[str, list[tuple[str, list[str]]]] = {}
    with open(DATA / f"senses_{name}.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            words.setdefault(row["word"], []).append(
                (row["sense"], row["sentence"].split())
            )
    return words


def rank_pairs(
    embedder: Embedder, word: str, rows: list[tuple[str, list[str]]], *, balanced: bool
) -> Floats:
    """Return how often a pair of one sense is nearer than a pair of two senses.

    Args:
        embedder: The model.
        word: A token of every sentence.
        rows: The sense and the tokens of each sentence.
        balanced: Whether sentences k and k + N / 2 have the same structure.

    Returns:
        Shape (L + 2,): by each layer, by the mean of the layers above layer 0, and by
        the mean of all layers.
    """
    embedded = embedder.embed_sentences(tokens for _, tokens in rows)
    layers = np.stack(
        [
            values[:, tokens.index(word)]
            for values, (_, tokens) in zip(embedded, rows, strict=True)
        ],
        axis=1,
    ).astype(float)  # (L, N, W)
    above = layers[min(1, len(layers) - 1) :].mean(axis=0)
    vectors = np.concatenate([layers, above[None], layers.mean(axis=0)[None]])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    cosines = np.einsum("lnw,lmw->nml", vectors, vectors)
    pairs = [
        (i, j)
        for i, j in combinations(range(len(rows)), 2)
        if not (balanced and j - i == len(rows) // 2)
    ]
    same = np.array([rows[i][0] == rows[j][0] for i, j in pairs])
    of_pairs = np.array([cosines[pair] for pair in pairs])  # (P, L + 2)
    margin = of_pairs[same][:, None] - of_pairs[~same][None]
    nearer = np.where(np.abs(margin) <= _EQUAL, 0.5, margin > _EQUAL)
    shares: Floats = nearer.mean(axis=(0, 1))
    return shares
