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


def measure_perplexity(
    model: LanguageModel, sentences: Iterable[Sentence], batch_size: int = DEFAULT_BATCH_SIZE
) -> Perplexity:
    """The perplexity of a stream of sentences.

    Args:
        sentences, batch_size: as in `LanguageModel.score`.

    Raises:
        InputError: there is no token.
    """
    return perplexity_of_scores(model.score(sentences, batch_size))


def perplexity_of_scores(scores: Iterable[SentenceScore]) -> Perplexity:
    """The same of the scores of sentences."""
    n_sentences = n_tokens = n_unknown = 0
    log_p, of_unknown = np.zeros(2), np.zeros(2)  # forward, backward
    for score in scores:
        unknown = ~score.known
        n_sentences += len(score.tokens) > 0
        n_tokens += len(score.tokens)
        n_unknown += int(unknown.sum())
        log_p += score.forward.sum(), score.backward.sum()
        of_unknown += score.forward[:-1][unknown].sum(), score.backward[1:][unknown].sum()
    if n_tokens == 0:
        raise InputError("expected a text with tokens to measure the perplexity of, found none")
    n = n_tokens + n_sentences
    return Perplexity(
        sentences=n_sentences,
        tokens=n_tokens,
        predictions=n,
        unknown=n_unknown / n_tokens,
        all_words=_directions(log_p, n),
        known_words=_directions(log_p - of_unknown, n - n_unknown),
    )


def _directions(log_p: NDArray[np.float64], n_predictions: int) -> Directions:
    """The sums of both directions' log probabilities, shape (2,), to perplexities."""
    means = np.append(log_p, log_p.mean()) / n_predictions
    with np.errstate(over="ignore"):
        return Directions(*np.exp(-means).tolist())
