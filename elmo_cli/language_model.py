"""biLM layers to log probabilities of words: the softmax over the vocabulary.

Both directions share it (Peters et al., 2018): the forward top layer at a token
predicts the token after it, the backward top layer the token before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.batching import index_tokens, pack
from elmo_cli.bilm import BiLm
from elmo_cli.characters import END_TOKEN, START_TOKEN
from elmo_cli.vocabulary import Vocabulary


class Predictions(NamedTuple):
    """What one direction knows at each prediction, and what it should have said."""

    context: Tensor
    """Float, shape (N, P): the top layer."""
    targets: Tensor
    """Int64, shape (N,): vocabulary indices."""


class Softmax(nn.Module):
    """The output layer: a vector and a bias a word of the vocabulary."""

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_words, projection_dim) / projection_dim**0.5)
        self.bias = nn.Parameter(torch.zeros(n_words))

    def forward(self, predictions: Predictions) -> Tensor:
        """The negative log probability of each target, in nats: float, shape (N,)."""
        logits = functional.linear(predictions.context, self.weight, self.bias)  # (N, V)
        return functional.cross_entropy(logits, predictions.targets, reduction="none")

    def sampled(self, predictions: Predictions, n_samples: int) -> Tensor:
        """The loss against a sample of words in place of all (Jean et al., 2015).

        Words are drawn from the log-uniform distribution over a vocabulary sorted by
        falling count, and shared by all predictions. It trains the same softmax
        but is no perplexity: a few words are easier to tell apart than all.

        Returns:
            float, shape (N,), in nats.
        """
        context, targets = predictions
        n_words = len(self.bias)
        uniform = torch.rand(n_samples, device=context.device)
        drawn = ((uniform * np.log(n_words + 1)).exp().long() - 1).clamp(0, n_words - 1)
        samples = drawn.unique()
        expected_log = _log_expected_count(samples, n_samples, n_words)  # (S,)
        target_log = _log_expected_count(targets, n_samples, n_words)  # (N,)

        sampled_logits = functional.linear(context, self.weight[samples], self.bias[samples])
        sampled_logits = sampled_logits - expected_log  # (N, S)
        # A sample that is the target itself would count it twice.
        hit = samples == targets[:, None]
        sampled_logits = sampled_logits.masked_fill(hit, float("-inf"))
        target_logits = (context * self.weight[targets]).sum(dim=1) + self.bias[targets]
        logits = torch.cat([(target_logits - target_log)[:, None], sampled_logits], dim=1)
        return functional.cross_entropy(logits, torch.zeros_like(targets), reduction="none")


def _log_expected_count(words: Tensor, n_samples: int, n_words: int) -> Tensor:
    """Log of how often a word is expected to be among the distinct samples."""
    rank = words.double() + 1
    probability = torch.log1p(1 / rank) / np.log(n_words + 1)
    return (-torch.expm1(n_samples * torch.log1p(-probability))).log().float()


def predictions(
    bilm: BiLm, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> tuple[Predictions, Predictions]:
    """What both directions predict over whole sentences, each from the zero state.

    The forward direction predicts every token and `</S>`, the backward direction
    every token and `<S>`: T + 1 predictions each for T tokens.

    Args:
        bilm: on any device.
        vocabulary: the words of the softmax; others count as `<UNK>`.
        sentences: without boundaries.
    """
    bounded = [[START_TOKEN, *sentence, END_TOKEN] for sentence in sentences]
    packing = pack([len(sentence) for sentence in bounded])
    device = bilm.device
    distinct, rows = index_tokens(bounded)
    packed = rows[packing.sentences, packing.positions]  # (N,)
    # Each distinct token is encoded once.
    vectors = bilm.token_encoder(bilm.token_encoder.token_ids(distinct).to(device))
    outputs, _ = bilm.contextualize(vectors[torch.as_tensor(packed, device=device)], packing)
    top = outputs[-1]

    words = np.append(vocabulary.indices(distinct), -1)  # padding predicts nothing
    targets = words[np.pad(rows, ((0, 0), (1, 1)), constant_values=-1)]  # (B, 1 + T + 1)
    after = torch.as_tensor(targets[packing.sentences, packing.positions + 2], device=device)
    before = torch.as_tensor(targets[packing.sentences, packing.positions], device=device)
    return (
        Predictions(bilm.dropout(top.forward)[after >= 0], after[after >= 0]),
        Predictions(bilm.dropout(top.backward)[before >= 0], before[before >= 0]),
    )
