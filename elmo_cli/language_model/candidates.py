"""Words of the vocabulary with their probabilities."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from elmo_cli.language_model.language_model import LanguageModel

PREDICTION_COLUMNS: Final = ("rank", "word", "probability")
"""Names of the values of a predicted word in tables."""


class Candidate(NamedTuple):
    """A word of the vocabulary with its probability."""

    word: str
    probability: float


def exclude_words(model: LanguageModel, log_p: Tensor, *words: str) -> Tensor:
    """Exclude words from log probabilities, shape (V,), and normalize the rest."""
    log_p[model.vocabulary.indices(words)] = -torch.inf
    return log_p.log_softmax(dim=0)


def most_probable(model: LanguageModel, log_p: Tensor, top: int) -> list[Candidate]:
    """Return the `top` most probable words by log probabilities, shape (V,).

    Equally probable words keep the order of the vocabulary. Words with the probability
    0 are no candidates.
    """
    n_candidates = min(top, len(log_p))
    least = log_p.topk(n_candidates).values[-1]
    # More than `top` words if several are as probable as the last one.
    best = (log_p >= least).nonzero()[:, 0]
    order = log_p[best].argsort(descending=True, stable=True)
    best = best[order][:top]
    probabilities = log_p[best].exp()
    candidates = []
    for index, probability in zip(best.tolist(), probabilities.tolist(), strict=True):
        if probability > 0:
            candidates.append(Candidate(model.vocabulary.words[index], probability))
    return candidates
