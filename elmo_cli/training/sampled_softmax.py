"""A sample of words in the place of the whole softmax, for training (Jean et al., 2015).

It trains the same softmax, but its loss is no perplexity: a few words are easier to tell
apart than all.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.training.softmax import Predictions, Softmax

_NEVER = -1e30
"""A logit whose probability is 0; infinity has no gradient where all are."""


class Samples(NamedTuple):
    """Words drawn for one step of training."""

    words: Tensor
    """Int64, shape (S,), distinct."""
    n_draws: int
    """How many draws it took to find so many distinct ones."""


def draw_words(n_words: int, n_samples: int, generator: torch.Generator) -> Samples:
    """Draw distinct words from the log-uniform distribution, as TensorFlow's sampler does.

    A vocabulary is sorted by falling count, so frequent words are drawn often.

    Args:
        n_words: of the vocabulary.
        n_samples: fewer than `n_words`.
        generator: on the CPU.
    """
    found = torch.empty(0, dtype=torch.int64)
    while True:
        uniform = torch.rand(2 * n_samples, generator=generator, dtype=torch.float64)
        # P(word) = log((word + 2) / (word + 1)) / log(n_words + 1)
        drawn = ((uniform * math.log(n_words + 1)).exp().long() - 1).clamp(0, n_words - 1)
        found = torch.cat([found, drawn])
        words, first = _first_appearances(found, n_words)
        if len(words) >= n_samples:
            return Samples(words[:n_samples], int(first[n_samples - 1]) + 1)


def _first_appearances(drawn: Tensor, n_words: int) -> tuple[Tensor, Tensor]:
    """The distinct words in the order in which they were drawn, and where each was first."""
    first = torch.full((n_words,), len(drawn))
    first.scatter_reduce_(0, drawn, torch.arange(len(drawn)), "amin")
    words = (first < len(drawn)).nonzero()[:, 0]
    places, order = first[words].sort()
    return words[order], places


def sampled_loss(softmax: Softmax, predictions: Predictions, samples: Samples) -> Tensor:
    """The loss of each prediction against the drawn words.

    Args:
        softmax: of the whole vocabulary.
        predictions: N contexts and targets.
        samples: on the device of the softmax.

    Returns:
        float32, shape (N,), in nats.
    """
    context, targets = predictions
    words, n_draws = samples
    n_words = len(softmax.bias)
    # What is drawn more often is so much less surprising: part of the bias.
    bias = softmax.bias[words] - _log_expected_count(words, n_draws, n_words)
    logits = functional.linear(context, softmax.weight[words], bias)  # (N, S)
    # A sample that is the target itself would count it twice.
    place = torch.full((n_words,), -1, device=words.device)
    place[words] = torch.arange(len(words), device=words.device)
    hit = place[targets]
    rows = (hit >= 0).nonzero()[:, 0]
    logits[rows, hit[rows]] = _NEVER
    target_logits = (context * softmax.weight[targets]).sum(dim=1) + softmax.bias[targets]
    target_logits = target_logits - _log_expected_count(targets, n_draws, n_words)
    total = torch.logaddexp(logits.float().logsumexp(dim=1), target_logits)
    return total - target_logits


def _log_expected_count(words: Tensor, n_draws: int, n_words: int) -> Tensor:
    """Log of the chance that a word is among the distinct samples."""
    rank = words.double() + 1
    probability = torch.log1p(1 / rank) / math.log(n_words + 1)
    return (-torch.expm1(n_draws * torch.log1p(-probability))).log().float()
