"""Scores of sentences to the perplexity of a text.

exp of the mean negative log probability of all predictions: each token, and one boundary a
sentence. `<UNK>` is a word like any other, so perplexities of different vocabularies cannot
be compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.inference.batching import DEFAULT_BATCH_SIZE
from elmo_cli.language_model.scoring import LanguageModel, SentenceScore
from elmo_cli.text.lines import Sentence


@dataclass(frozen=True)
class Directions:
    """The perplexity of each direction, and of both."""

    forward: float
    backward: float
    average: float
    """exp of the mean of both directions' mean negative log probabilities, which is the
    geometric mean of both perplexities."""


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text."""

    sentences: int
    """Those that have tokens; the others are not predicted."""
    tokens: int
    predictions: int
    """Of each direction: every token, and a boundary a sentence."""
    unknown: float
    """The share of the tokens that are not in the vocabulary."""
    all_words: Directions
    """Of all predictions, `<UNK>` counted as a word."""
    known_words: Directions
    """Of the predictions of words of the vocabulary, boundaries included."""


class Totals:
    """The sums over sentences that a perplexity is made of."""

    def __init__(self) -> None:
        self._sentences = self._tokens = self._unknown = 0
        self._log_p = np.zeros(2)  # forward, backward
        self._log_p_known = np.zeros(2)

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        self._sentences += len(score.tokens) > 0
        self._tokens += len(score.tokens)
        self._unknown += int((~score.known).sum())
        self._log_p += score.forward.sum(), score.backward.sum()
        unknown = score.forward[:-1][~score.known].sum(), score.backward[1:][~score.known].sum()
        self._log_p_known += score.forward.sum() - unknown[0], score.backward.sum() - unknown[1]

    def perplexity(self) -> Perplexity:
        """The perplexity of all sentences that were counted.

        Raises:
            InputError: none of them has a token.
        """
        if self._tokens == 0:
            raise InputError("expected a text with tokens to measure the perplexity of, found none")
        n = self._tokens + self._sentences
        return Perplexity(
            sentences=self._sentences,
            tokens=self._tokens,
            predictions=n,
            unknown=self._unknown / self._tokens,
            all_words=perplexity_of_sums(self._log_p, n),
            known_words=perplexity_of_sums(self._log_p_known, n - self._unknown),
        )


def perplexity_of(score: SentenceScore) -> Directions | None:
    """The perplexity of one sentence; None of one without tokens."""
    if not score.tokens:
        return None
    log_p = np.array([score.forward.sum(), score.backward.sum()])
    return perplexity_of_sums(log_p, len(score.forward))


def perplexity_of_sums(log_p: NDArray[np.float64], n_predictions: int) -> Directions:
    """The sums of both directions' log probabilities, shape (2,), to perplexities."""
    means = np.append(log_p, log_p.mean()) / n_predictions
    with np.errstate(over="ignore"):
        return Directions(*np.exp(-means).tolist())


def measure_perplexity(
    model: LanguageModel, sentences: Iterable[Sentence], batch_size: int = DEFAULT_BATCH_SIZE
) -> Perplexity:
    """The perplexity of a stream of sentences.

    Args:
        sentences, batch_size: as in `LanguageModel.score`.

    Raises:
        InputError: there is no token.
    """
    totals = Totals()
    for score in model.score(sentences, batch_size):
        totals.add(score)
    return totals.perplexity()
