"""Perplexity of a text.

The perplexity is exp of the mean negative log probability of all predictions: each token, and one
boundary per sentence. `<UNK>` counts as a word, so perplexities of different vocabularies cannot be
compared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.language_model.scoring import LanguageModel, SentenceScore
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN
from elmo_cli.settings import DEFAULT_BATCH_SIZE
from elmo_cli.text.records import Sentence

SENTENCE_COLUMNS: Final = (
    *("tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
"""Columns of `sentence_rows`; the last three are perplexities."""
TOKEN_COLUMNS: Final = ("position", "token", "known", "log_p_forward", "log_p_backward")
"""Columns of `token_rows`."""


@dataclass(frozen=True)
class Directions:
    """Perplexity of each direction, and of both together."""

    forward: float
    backward: float
    average: float
    """exp of the mean of both directions' mean negative log probabilities, which is the
    geometric mean of both perplexities."""


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a text, with the numbers of sentences, tokens and predictions."""

    sentences: int
    """Number of sentences with tokens; the others are not predicted."""
    tokens: int
    predictions: int
    """Number of predictions per direction: every token, and one boundary per sentence."""
    unknown: float
    """Share of the tokens that are not in the vocabulary."""
    all_words: Directions
    """Perplexity of all predictions, with `<UNK>` as a word."""
    known_words: Directions
    """Perplexity of the words of the vocabulary, including boundaries."""


def measure_perplexity(
    model: LanguageModel, sentences: Iterable[Sentence], batch_size: int = DEFAULT_BATCH_SIZE
) -> Perplexity:
    """Measure the perplexity of a stream of sentences.

    Args:
        sentences, batch_size: As in `LanguageModel.score`.

    Raises:
        InputError: There is no token.
    """
    return perplexity_of_scores(model.score(sentences, batch_size))


def perplexity_of_scores(scores: Iterable[SentenceScore]) -> Perplexity:
    """Compute the perplexity from the scores of sentences; see `measure_perplexity`."""
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
    """Turn the sums of both directions' log probabilities, shape (2,), into perplexities."""
    means = np.append(log_p, log_p.mean()) / n_predictions
    with np.errstate(over="ignore"):
        return Directions(*np.exp(-means).tolist())


def sentence_rows(score: SentenceScore) -> Iterator[list[object]]:
    """Yield the row of a sentence. One without tokens has no perplexities."""
    perplexities: list[object] = [None] * 3
    if score.tokens:
        perplexities = list(astuple(perplexity_of_scores([score]).all_words))
    log_p = float(score.forward.sum()), float(score.backward.sum())
    yield [len(score.tokens), int((~score.known).sum()), *log_p, *perplexities]


def token_rows(score: SentenceScore) -> Iterator[list[object]]:
    """Yield the rows of the tokens of a sentence, with `<S>` before and `</S>` after them.

    Positions count from 0, so that `<S>` has the position -1.
    """
    if not score.tokens:
        return
    tokens = [START_TOKEN, *score.tokens, END_TOKEN]
    known = [True, *score.known.tolist(), True]
    forward = [None, *score.forward.tolist()]
    backward = [*score.backward.tolist(), None]
    values = zip(tokens, known, forward, backward, strict=True)
    for position, (token, is_known, *log_p) in enumerate(values, start=-1):
        yield [position, token, is_known, *log_p]
