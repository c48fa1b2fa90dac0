"""Word senses by the nearest sense in SemCor, as in Peters et al. (2018), Table 5.

The vector of a sense is the mean of the vectors of its occurrences in SemCor. A word of
the test set gets the sense of its lemma and part of speech with the largest cosine. Of
equal cosines, the sense that is more frequent in SemCor wins. A word of several tokens
has the mean of their vectors. Words that SemCor lacks get WordNet's first sense, or no
sense.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.bootstrap import Estimate, Floats, ratio_of_groups
from evaluation.sense_data import SenseSentence, Target, Word, word_of
from evaluation.tables import Cell, Figure, Table, figures
from evaluation.token_style import Embedder

FIRST = "WordNet's first sense"
MOST_FREQUENT = "most frequent sense in SemCor"
PUBLISHED = {
    "published: first sense": 65.9,
    "published: biLM, layer 1": 67.4,
    "published: biLM, layer 2": 69.0,
    "published: CoVe, layer 1": 59.4,
    "published: CoVe, layer 2": 64.7,
}
"""F1 on all data sets (Peters et al., 2018)."""
_EQUAL = 1e-6
"""Cosines that differ by less are equal."""


@dataclass(frozen=True)
class Guesses:
    """Answers of K methods for N targets."""

    methods: list[str]
    correct: Floats
    """1 for a correct answer, shape (N, K). Words that SemCor lacks get WordNet's first
    sense."""
    in_semcor: NDArray[np.bool_]
    """True for each word that SemCor has, shape (N,)."""
    several: NDArray[np.bool_]
    """True for each word that has several senses in SemCor, shape (N,)."""
    sentences: NDArray[np.int64]
    """Sentence of each target, shape (N,)."""
    sources: NDArray[np.str_]
    """Data set of each target, shape (N,)."""

    def f1(self, chosen: NDArray[np.bool_], *, fallback: bool) -> Estimate:
        """Return the F1 of each method on the chosen targets.

        Args:
            chosen: Shape (N,).
            fallback: Whether words that SemCor lacks get WordNet's first sense. Without
                it, only the method `FIRST` answers them.
        """
        answered = np.ones_like(self.correct)
        if not fallback:
            is_first = np.array([method == FIRST for method in self.methods])
            answered[~self.in_semcor[:, None] & ~is_first] = 0
        correct = (self.correct * answered)[chosen]
        # F1 = 2 P R / (P + R) = 2 correct / (answered + all)
        n_answered_and_all = answered[chosen] + 1
        return ratio_of_groups(2 * correct, n_answered_and_all, self.sentences[chosen])


def evaluate(
    embedder: Embedder,
    semcor: Sequence[SenseSentence],
    tests: Sequence[SenseSentence],
    numbers: dict[str, int],
) -> list[Table]:
    """Return the tables of F1, with and without WordNet for words SemCor lacks."""
    guesses = guess(embedder, semcor, tests, numbers)
    sets = {"all": np.ones(len(guesses.correct), bool)}
    for name in dict.fromkeys(guesses.sources.tolist()):
        sets[name] = guesses.sources == name
    if guesses.several.any():
        sets["several senses in SemCor"] = guesses.several
    note = (
        f"F1 on {len(guesses.correct):,} words, {100 * guesses.in_semcor.mean():.1f} % "
        f"of them in SemCor, {100 * guesses.several.mean():.1f} % with several senses "
        "there. Intervals draw sentences. "
    )
    return [
        _tabulate(
            "Word senses",
            note + "Words that SemCor lacks get WordNet's first sense.",
            guesses,
            sets,
            fallback=True,
        ),
        _tabulate(
            "Word senses without fallback",
            note + "Words that SemCor lacks get no sense, except from WordNet.",
            guesses,
            sets,
            fallback=False,
        ),
    ]


def _tabulate(
    name: str,
    note: str,
    guesses: Guesses,
    sets: dict[str, NDArray[np.bool_]],
    *,
    fallback: bool,
) -> Table:
    estimates = [guesses.f1(chosen, fallback=fallback) for chosen in sets.values()]
    by_set = [figures(estimate) for estimate in estimates]
    rows: dict[str, Sequence[Cell]] = {
        method: [of_set[k] for of_set in by_set]
        for k, method in enumerate(guesses.methods)
    }
    layers = [method for method in guesses.methods if method.startswith("layer ")]
    top = guesses.methods.index(layers[-1])
    for k, method in enumerate(guesses.methods):
        if k != top:
            differences = [estimate.difference(top, k) for estimate in estimates]
            title = f"{layers[-1]} minus {method}"
            rows[title] = [figures(difference)[0] for difference in differences]
    if fallback:
        for title, value in PUBLISHED.items():
            rows[title] = [Figure(value), *[None] * (len(sets) - 1)]
    return Table(name, note, list(sets), rows)


def guess(
    embedder: Embedder,
    semcor: Sequence[SenseSentence],
    tests: Sequence[SenseSentence],
    numbers: dict[str, int],
) -> Guesses:
    """Predict the sense of each target of the test sets by each method.

    Args:
        embedder: The model.
        semcor: Sentences whose senses are known.
        tests: Sentences whose senses are guessed.
        numbers: WordNet's number of each sense, from 1.
    """
    targets = [
        (s, target) for s, sentence in enumerate(tests) for target in sentence.targets
    ]
    words = {target.word for _, target in targets}
    senses = rank_senses(semcor, words, numbers)
    first = {word_of(sense): sense for sense, number in numbers.items() if number == 1}
    all_senses = [sense for ranked in senses.values() for sense in ranked]
    rows = {sense: row for row, sense in enumerate(all_senses)}
    sums = sum_vectors(embedder, semcor, rows)  # (S, F, W)
    vectors = embed_targets(embedder, tests)  # (N, F, W)
    choices = choose_features(vectors.shape[1])
    correct = []
    for vector, (_, target) in zip(vectors, targets, strict=True):
        ranked_senses = senses.get(target.word, [])
        first_sense = first.get(target.word)
        if not ranked_senses:
            answers = [first_sense] * (len(choices) + 2)
        else:
            answers = [first_sense, ranked_senses[0]]
            candidates = sums[[rows[sense] for sense in ranked_senses]]
            for chosen in choices.values():
                nearest = find_nearest(candidates, vector, chosen)
                answers.append(ranked_senses[nearest])
        correct.append([float(answer in target.senses) for answer in answers])
    n_senses = np.array([len(senses.get(target.word, [])) for _, target in targets])
    return Guesses(
        methods=[FIRST, MOST_FREQUENT, *choices],
        correct=np.array(correct),
        in_semcor=n_senses > 0,
        several=n_senses > 1,
        sentences=np.array([s for s, _ in targets]),
        sources=np.array([tests[s].source for s, _ in targets]),
    )


def rank_senses(
    sentences: Iterable[SenseSentence], words: set[Word], numbers: dict[str, int]
) -> dict[Word, list[str]]:
    """Return the senses of words that occur, the most frequent first.

    Equally frequent ones are in WordNet's order. Senses that WordNet lacks are skipped:
    SemCor has some of older versions.
    """
    counts = Counter(
        sense
        for sentence in sentences
        for target in sentence.targets
        for sense in target.senses
        if sense in numbers and word_of(sense) in words
    )
    ranked: dict[Word, list[str]] = {}
    for sense in sorted(counts, key=lambda s: (-counts[s], numbers[s])):
        ranked.setdefault(word_of(sense), []).append(sense)
    return ranked


def choose_features(n_features: int) -> dict[str, list[int]]:
    """Return the features whose mean is the vector of each method; see `_features`."""
    n_layers = n_features - 1
    choices = {f"layer {layer}": [layer] for layer in range(n_layers)}
    if n_layers > 2:
        choices[f"mean of layers 1 to {n_layers - 1}"] = list(range(1, n_layers))
    choices["mean of all layers"] = list(range(n_layers))
    choices["mean of the sentence"] = [n_layers]
    return choices


def _features(layers: NDArray[np.float32], target: Target) -> NDArray[np.float32]:
    """Return the features of a target.

    Returns:
        Shape (L + 1, W): the vector of each layer, then the mean of all tokens of the
        sentence in all layers above the token layer.
    """
    token = layers[:, list(target.positions)].mean(axis=1)
    sentence = layers[min(1, len(layers) - 1) :].mean(axis=(0, 1))
    return np.concatenate([token, sentence[None]])


def sum_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], rows: dict[str, int]
) -> NDArray[np.float32]:
    """Add up the features of the occurrences of each sense.

    Args:
        embedder: The model.
        sentences: Sentences with senses. Senses without a row are skipped.
        rows: The row of each sense, from 0.

    Returns:
        Shape (S, F, W). The cosine of a sum is the cosine of the mean.
    """
    used = [s for s in sentences if any(k in rows for t in s.targets for k in t.senses)]
    sums = np.zeros((0, 0, 0), np.float32)
    embedded = embedder.embed_sentences(sentence.tokens for sentence in used)
    for sentence, layers in zip(used, embedded, strict=True):
        if not len(sums):
            sums = np.zeros((len(rows), len(layers) + 1, layers.shape[2]), np.float32)
        for target in sentence.targets:
            of_target = [rows[sense] for sense in target.senses if sense in rows]
            if of_target:
                sums[of_target] += _features(layers, target)
    return sums


def embed_targets(
    embedder: Embedder, sentences: Sequence[SenseSentence]
) -> NDArray[np.float32]:
    """Return the features of all targets, shape (N, F, W)."""
    embedded = embedder.embed_sentences(sentence.tokens for sentence in sentences)
    return np.stack(
        [
            _features(layers, target)
            for sentence, layers in zip(sentences, embedded, strict=True)
            for target in sentence.targets
        ]
    )


def find_nearest(
    candidates: NDArray[np.float32], vector: NDArray[np.float32], chosen: list[int]
) -> int:
    """Return the first candidate of the largest cosine.

    It is computed from the mean of the chosen features.

    Args:
        candidates: Shape (S, F, W).
        vector: Shape (F, W).
        chosen: Features.
    """
    means = candidates[:, chosen].astype(float).mean(axis=1)  # (S, W)
    query = vector[chosen].astype(float).mean(axis=0)
    lengths = np.linalg.norm(means, axis=1) * np.linalg.norm(query)
    cosines = means @ query / np.maximum(lengths, 1e-12)
    return int(np.argmax(cosines > cosines.max() - _EQUAL))
