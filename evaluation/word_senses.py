"""How well the senses of words can be told from annotated examples, at each layer.

    python evaluation/word_senses.py /usr/share/wordnet [--model MODEL]

The examples are those of WordNet's senses (see `wordnet_examples`): 1,000 words, drawn from
those with examples of two senses or more, and of one of them two or more. Two figures:

nearest sense: an example is taken out, each sense is the average of the vectors of its
(other) examples, and the nearest by cosine is the guess (Peters et al., 2018). Only examples of
senses that have others are guessed. Ties count in shares.

pairs: how often two examples of one sense of a word are nearer (cosine) than an example of
that sense and one of another sense. 0.5 is chance.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from bootstrap import Estimate, mean_of_groups
from numpy.typing import NDArray
from wordnet_examples import Example, read_examples

from elmo_cli import ElmoEmbedder

N_WORDS = 1000

Floats = NDArray[np.float64]


def main() -> None:
    """Print both figures of each layer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--state", default="zero")
    asked = parser.parse_args()
    words = choose_words(list(read_examples(asked.wordnet).values()))
    embedder = ElmoEmbedder(model=asked.model, state=asked.state)
    vectors = embed(embedder, words)
    print(f"nearest sense, at random\t{random_guess(words):.4f}")
    print(f"nearest sense, WordNet's first\t{first_sense_guess(words):.4f}")
    for name, estimate in (
        ("nearest sense", nearest_sense(words, vectors)),
        ("pairs", rank_pairs(words, vectors)),
    ):
        for layer, value in enumerate(estimate.values):
            print(f"{name}, layer {layer}\t{value:.4f} ± {estimate.errors[layer]:.4f}")
        difference, error = estimate.difference(len(estimate.values) - 1, 1)
        print(f"{name}, top layer above layer 1 by\t{difference:.4f} ± {error:.4f}")


def choose_words(words: Sequence[list[Example]], seed: int = 0) -> list[list[Example]]:
    """Draw words of which a sense has two examples or more."""
    usable = [examples for examples in words if _counts(examples).most_common(1)[0][1] > 1]
    return random.Random(seed).sample(usable, min(N_WORDS, len(usable)))


def embed(embedder: ElmoEmbedder, words: list[list[Example]]) -> list[Floats]:
    """The vectors of each word's examples: (N, L, W) each, of length 1."""
    stream = embedder.embed_sentences([e.sentence for examples in words for e in examples])
    vectors = []
    for examples in words:
        stacked = np.stack([next(stream)[:, example.place] for example in examples])
        lengths = np.linalg.norm(stacked, axis=-1, keepdims=True)
        vectors.append(stacked.astype(float) / np.maximum(lengths, 1e-12))
    return vectors


def nearest_sense(words: list[list[Example]], vectors: list[Floats]) -> Estimate:
    """The share of right guesses of each layer."""
    scores, groups = [], []
    for group, (examples, values) in enumerate(zip(words, vectors, strict=True)):
        counts = _counts(examples)
        senses = np.array([example.sense for example in examples])
        for place, sense in enumerate(senses):
            if counts[sense] > 1:
                scores.append(_guess(values, senses, place))
                groups.append(group)
    return mean_of_groups(np.array(scores), _from_zero(groups))


def _guess(vectors: Floats, senses: NDArray[np.int64], place: int) -> Floats:
    """Whether each layer finds the sense of an example among those of the others: (L,)."""
    others = np.arange(len(senses)) != place
    candidates = np.unique(senses)
    averages = np.stack([vectors[others & (senses == s)].mean(axis=0) for s in candidates])
    cosines = np.einsum("slw,lw->sl", averages, vectors[place])
    cosines /= np.maximum(np.linalg.norm(averages, axis=-1), 1e-12)
    best = cosines > cosines.max(axis=0) - 1e-6
    right: Floats = best[candidates == senses[place]][0] / best.sum(axis=0)
    return right


def rank_pairs(words: list[list[Example]], vectors: list[Floats]) -> Estimate:
    """How often a pair of one sense is nearer than a pair of two, the mean over words."""
    scores = []
    for examples, values in zip(words, vectors, strict=True):
        cosines = np.einsum("ilw,jlw->ijl", values, values)
        pairs = list(combinations(range(len(examples)), 2))
        same = np.array([examples[i].sense == examples[j].sense for i, j in pairs])
        of_pairs = np.array([cosines[pair] for pair in pairs])  # (P, L)
        margin = of_pairs[same][:, None] - of_pairs[~same][None]
        nearer = (margin > 1e-6) + 0.5 * (np.abs(margin) <= 1e-6)
        scores.append(nearer.mean(axis=(0, 1)))
    return mean_of_groups(np.array(scores), np.arange(len(scores)))


def random_guess(words: list[list[Example]]) -> float:
    """The share of right guesses at random, of the examples that `nearest_sense` guesses."""
    return float(np.mean([1 / n_senses for n_senses, _ in _tried(words)]))


def first_sense_guess(words: list[list[Example]]) -> float:
    """The same for always guessing the sense that WordNet has first: the most frequent."""
    return float(np.mean([is_first for _, is_first in _tried(words)]))


def _tried(words: list[list[Example]]) -> Iterator[tuple[int, bool]]:
    """Of each guessed example: how many senses there are, and whether it is of the first."""
    for examples in words:
        counts = _counts(examples)
        for sense, n_examples in counts.items():
            if n_examples > 1:
                yield from [(len(counts), sense == min(counts))] * n_examples


def _counts(examples: list[Example]) -> Counter[int]:
    return Counter(example.sense for example in examples)


def _from_zero(groups: list[int]) -> NDArray[np.int64]:
    numbered: NDArray[np.int64] = np.unique(groups, return_inverse=True)[1]
    return numbered


if __name__ == "__main__":
    main()
