"""biLM layers to log probabilities of words: the softmax over the vocabulary.

Both directions share it (Peters et al., 2018): the forward top layer at a token
predicts the token after it, the backward top layer the token before it.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


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
