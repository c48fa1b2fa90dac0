"""Words with their probabilities."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.model.vocabulary import SPECIAL_TOKENS


class Candidate(NamedTuple):
    """A word of the vocabulary with its probability."""

    word: str
    probability: float


def _between(model: LanguageModel, ahead: Tensor, behind: Tensor) -> Iterator[Tensor]:
    """Yield the log probability, (V,), of every word between two contexts, shape (N, P)."""
    ranks = torch.arange(
        1, len(model.vocabulary) + 1, dtype=torch.float64, device="cpu"
    )
    of_word = ranks.reciprocal().log1p().log()  # log p(w), up to a constant
    both = zip(
        model.softmax.of_words(ahead), model.softmax.of_words(behind), strict=True
    )
    for left, right in both:
        yield without(model, left + right - of_word, *SPECIAL_TOKENS)


def without(model: LanguageModel, log_p: Tensor, *words: str) -> Tensor:
    """Exclude words from log probabilities, shape (V,), and normalize the rest."""
    log_p[model.vocabulary.indices(words)] = -torch.inf
    return log_p.log_softmax(dim=0)


def best(model: LanguageModel, log_p: Tensor, top: int) -> list[Candidate]:
    """Return the most probable words by log probabilities, shape (V,); ties keep their order."""
    least = log_p.topk(min(top, len(log_p))).values[-1]
    near = (log_p >= least).nonzero()[:, 0]
    order = near[log_p[near].argsort(descending=True, stable=True)][:top]
    return [
        Candidate(model.vocabulary.words[index], probability)
        for index, probability in zip(
            order.tolist(), log_p[order].exp().tolist(), strict=True
        )
        if probability > 0
    ]
