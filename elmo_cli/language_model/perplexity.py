"""Perplexity of a text, and surprisal of each token.

The perplexity is exp of the mean negative log probability of all predictions: each token, and one
boundary per sentence. `<UNK>` counts as a word, so perplexities of different vocabularies cannot be
compared.

The surprisal of a token, in bits, is -log2 of its probability in its context. A token that is not
in the vocabulary has the surprisal of `<UNK>`, which covers all unknown words.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.inference.fast_bilm import BACKWARD, FORWARD
from elmo_cli.language_model.scoring import LanguageModel, SentenceScore
from elmo_cli.settings import DEFAULT_BATCH_SIZE
from elmo_cli.text.records import Sentence


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


class Surprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (T,)."""
    entropy: NDArray[np.float64] | None
    """Expected surprisal at each position, shape (T,); None unless it was requested."""


def measure_surprisal(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] = lambda: True,
    *,
    backward: bool = False,
    with_entropy: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token of a stream of sentences.

    Args:
        sentences, batch_size, is_ready: As in `LanguageModel.score`.
        backward: Predict each token from the tokens after it instead of those before it.
        with_entropy: Compute the entropy of each prediction too.
    """

    def compute(batch: list[Sentence], top: Tensor) -> list[Surprisals]:
        found = model.score_batch(batch, top, directions, with_entropy=with_entropy)
        return [
            _in_bits(tokens, known, scores[:, 1:] if backward else scores[:, :-1])
            for tokens, (known, [scores]) in zip(batch, found, strict=True)
        ]

    directions = BACKWARD if backward else FORWARD
    nothing = _in_bits([], np.empty(0, bool), np.empty((1 + with_entropy, 0)))
    return model.compute_batches(
        sentences,
        compute,
        nothing,
        directions=directions,
        batch_size=batch_size,
        is_ready=is_ready,
    )


def _in_bits(tokens: Sentence, known: NDArray[np.bool_], scores: NDArray[np.float64]) -> Surprisals:
    """Convert log probabilities, shape (1, T), or with entropies, (2, T), to bits."""
    bits = scores / np.log(2)
    return Surprisals(tokens, known, -bits[0], bits[1] if len(bits) > 1 else None)
