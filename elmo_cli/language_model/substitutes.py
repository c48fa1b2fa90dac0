"""Substitutes for the tokens of sentences."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from elmo_cli.errors.checks import Sentence, Text, check_at_least, check_type
from elmo_cli.language_model.candidates import Candidate, _between, best
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.next_words import PREDICTION_COLUMNS

SUBSTITUTE_COLUMNS: Final = ("position", "token", "known", *PREDICTION_COLUMNS)


class Substitutes(NamedTuple):
    """Most probable words at the position of each token of a sentence."""

    tokens: Sentence
    candidates: list[list[Candidate]]
    """Words for each token, by falling probability."""


def substitute_words(
    model: LanguageModel, sentences: Iterable[Text], top: int = 10
) -> Iterator[Substitutes]:
    """Find the most probable words in the place of each token, as if a gap were there.

    Args:
        model: Language model.
        sentences: Raw texts or lists of tokens.
        top: Number of words per token, at most the size of the vocabulary.

    Returns:
        An iterator over the words for each token of one sentence.

    Raises:
        InputError: `top` is less than 1.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    check_at_least("top", top, 1)

    def compute(batch: list[Sentence], layer: Tensor) -> list[Substitutes]:
        lengths = [len(sentence) for sentence in batch]
        inner = [
            0 < index <= length for length in lengths for index in range(length + 2)
        ]
        rows = torch.tensor(inner, device=layer.device).nonzero()[
            :, 0
        ]  # rows of tokens
        ahead, behind = layer.chunk(2, dim=1)
        log_p = _between(model, ahead[rows - 1], behind[rows + 1])
        return [
            Substitutes(sentence, [best(model, next(log_p), top) for _ in sentence])
            for sentence in batch
        ]

    return model.compute_batches(sentences, compute, Substitutes([], []))
