"""Perplexity of texts."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.checks import Text, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.language_model import LanguageModel, SentenceScore
from elmo_cli.options.model import DEFAULT_BATCH_SIZE

SENTENCE_COLUMNS: Final = (
    *("tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
"""Columns of `sentence_row`; the last three are perplexities."""


@dataclass(frozen=True)
class Directions:
    """Perplexity of each direction, and of both together."""

    forward: float
    backward: float
    average: float
    """Geometric mean of both perplexities."""


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
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Perplexity:
    """Measure the perplexity of a stream of sentences.

    Args:
        model: Language model.
        sentences, batch_size: As in `LanguageModel.score`.

    Returns:
        Perplexity of each direction, with and without unknown words, and the numbers of tokens.

    Raises:
        InputError: There is no token.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    return perplexity_of_scores(model.score(sentences, batch_size))


def perplexity_of_scores(
    scores: Iterable[SentenceScore], name: str = "the text"
) -> Perplexity:
    """Compute the perplexity from the scores of sentences; see `measure_perplexity`."""
    n_sentences = n_tokens = n_unknown = 0
    log_p, of_unknown = np.zeros(2), np.zeros(2)  # forward, backward
    for score in scores:
        unknown = ~score.known
        n_sentences += len(score.tokens) > 0
        n_tokens += len(score.tokens)
        n_unknown += int(unknown.sum())
        log_p += score.forward.sum(), score.backward.sum()
        of_unknown += (
            score.forward[:-1][unknown].sum(),
            score.backward[1:][unknown].sum(),
        )
    if n_tokens == 0:
        raise InputError(f"{name} has no tokens")
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


def sentence_row(scores: Sequence[SentenceScore]) -> list[object]:
    """Return the row of a record, of one or more sentences. Without tokens it has no perplexity."""
    n_tokens = sum(len(score.tokens) for score in scores)
    perplexities = (
        astuple(perplexity_of_scores(scores).all_words) if n_tokens else [None] * 3
    )
    n_unknown = sum(int((~score.known).sum()) for score in scores)
    forward = float(sum(score.forward.sum() for score in scores))
    backward = float(sum(score.backward.sum() for score in scores))
    return [n_tokens, n_unknown, forward, backward, *perplexities]
