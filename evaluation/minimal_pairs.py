"""Minimal pairs: BLiMP (Warstadt et al., 2020), for a language model with its softmax.

A pair is correct if the acceptable sentence is more probable than the other one, by the forward
direction, the backward direction, or the sum of both log probabilities. A tie counts as half.
The end of each sentence is predicted too. Sentences are tokenized by the Moses rules.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from bootstrap import Floats, mean_of_groups
from numpy.typing import NDArray
from tables import Cell, Figure, Table, figures

from elmo_cli import tokenize

PUBLISHED = {
    "published: 5-gram": 61.2,
    "published: LSTM, 83M tokens": 69.8,
    "published: GPT-2, 10M words": 65.1,
}
"""Accuracy on all pairs: Warstadt et al. (2020); the last one from BabyLM."""
_PHENOMENA = {"s-selection": "argument_structure"}
"""Terms of the files and the phenomena to which the paper counts them."""


class Score(Protocol):
    """The part of a sentence's score that the test uses."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """True for each token that is in the vocabulary, shape (T,)."""

    @property
    def forward(self) -> Floats:
        """Log probabilities by the forward direction."""

    @property
    def backward(self) -> Floats:
        """Log probabilities by the backward direction."""


class Scorer(Protocol):
    """The part of `LanguageModel` that the test uses."""

    def score(self, sentences: Iterable[list[str]], /) -> Iterable[Score]:
        """Yield the score of each sentence."""


class Pair(NamedTuple):
    """An acceptable and an unacceptable sentence."""

    good: str
    bad: str
    phenomenon: str


def read_pairs(paths: Iterable[Path], n_pairs: int | None = None) -> Iterator[Pair]:
    """Yield the pairs of BLiMP's sets.

    Args:
        paths: Files of JSON lines, one per set.
        n_pairs: Maximum number of pairs per set, the first ones.
    """
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            for line in islice(file, n_pairs):
                pair = json.loads(line)
                term = pair["linguistics_term"]
                phenomenon = _PHENOMENA.get(term, term).replace("_", " ")
                yield Pair(pair["sentence_good"], pair["sentence_bad"], phenomenon)


def evaluate(scorer: Scorer, pairs: Sequence[Pair]) -> Table:
    """Return the table of accuracies: a row per phenomenon, a column per direction."""
    correct, are_known = score_pairs(scorer, pairs)
    phenomena = np.array([pair.phenomenon for pair in pairs])
    rows: dict[str, Sequence[Cell]] = {"all": _summarize(correct, are_known)}
    for name in np.unique(phenomena).tolist():
        rows[name] = _summarize(correct[phenomena == name], are_known[phenomena == name])
    for title, value in PUBLISHED.items():
        rows[title] = [Figure(value), *[None] * (len(_COLUMNS) - 1)]
    note = f"Accuracy on {len(pairs):,} pairs of BLiMP. Intervals draw pairs of the same sets."
    return Table("Minimal pairs", note, _COLUMNS, rows)


_COLUMNS = [
    "forward",
    "backward",
    "both",
    "pairs with unknown words",
    "both, all words known",
    "both minus forward",
]


def _summarize(correct: Floats, are_known: NDArray[np.bool_]) -> list[Cell]:
    numbers = np.arange(len(correct))
    columns = [correct, ~are_known[:, None], correct[:, [2]] - correct[:, [0]]]
    *accuracies, unknown, difference = figures(mean_of_groups(np.hstack(columns), numbers))
    of_known: Figure | None = None
    if are_known.any():
        of_known = figures(mean_of_groups(correct[are_known][:, [2]], numbers[are_known]))[0]
    return [*accuracies, unknown, of_known, difference]


def score_pairs(scorer: Scorer, pairs: Sequence[Pair]) -> tuple[Floats, NDArray[np.bool_]]:
    """Score pairs.

    Returns:
        1, 0.5 (a tie) or 0 for each pair, forward, backward and both: shape (N, 3). And
        whether all words of both sentences are in the vocabulary: shape (N,).
    """
    # Equal sentences are scored once: it is faster, and their scores are equal to the last bit.
    numbers = {text: n for n, text in enumerate(dict.fromkeys(t for p in pairs for t in p[:2]))}
    totals, are_known = [], []
    for score in scorer.score(tokenize(text) for text in numbers):
        forward, backward = float(score.forward.sum()), float(score.backward.sum())
        totals.append([forward, backward, forward + backward])
        are_known.append(bool(score.known.all()))
    good, bad = (np.array([numbers[pair[side]] for pair in pairs]) for side in (0, 1))
    log_p, all_known = np.array(totals), np.array(are_known)
    correct = (log_p[good] > log_p[bad]) + 0.5 * (log_p[good] == log_p[bad])
    return correct, all_known[good] & all_known[bad]
