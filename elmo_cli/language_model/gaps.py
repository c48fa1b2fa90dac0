"""Gaps in texts, and the probabilities of the words that fill them.

Both directions meet in a gap. If the text on the left (l) and the text on the right (r)
were independent given the word w, Bayes' rule would give

    p(w | l, r)  is proportional to  p(w | l) p(w | r) / p(w)

The two log probabilities are added, the log probability of the word by itself is
subtracted, and the result is normalized over the vocabulary. The model does not know
p(w). A vocabulary by falling count approximates it: p(w) is taken to be log-uniform in
the word's rank, as in the sampled softmax of training.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch import Tensor

from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.candidates import exclude_words
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.model.vocabulary import SPECIAL_TOKENS
from elmo_cli.types import Sentence

GAP: Final = "___"
"""Token that marks the word to predict."""
_MARK: Final = re.compile(r"_{3,}")
"""Gap in a raw text."""
_MASK: Final = re.compile(r"\[MASK\]|<mask>")
"""Tokens that other models have for a gap."""


def cut_around_gaps(text: str, tokenize: Callable[[str], Sentence]) -> Sentence:
    """Tokenize a text; three or more `_` are one token, wherever they stand."""
    first, *others = _MARK.split(text)
    tokens = list(tokenize(first))
    for part in others:
        tokens += [GAP, *tokenize(part)]
    return tokens


def check_gaps(tokens: Sentence) -> Sentence:
    """Return the tokens of a text.

    Raises:
        InputError: There are several gaps, or a mask of BERT.
    """
    mask = _MASK.search("".join(tokens))
    if mask is not None:
        raise InputError(
            f"{' '.join(tokens)}: write {GAP} for the word to predict, not {mask[0]}"
        )
    n_gaps = tokens.count(GAP)
    if n_gaps > 1:
        raise InputError(
            f"{' '.join(tokens)}: {n_gaps} gaps ({GAP}). Fill all but one of them."
        )
    return tokens


def fill_gaps(model: LanguageModel, left: Tensor, right: Tensor) -> Iterator[Tensor]:
    """Yield the log probability of every word, float, shape (V,), in each of N gaps.

    Args:
        model: Language model.
        left: Contexts of the forward direction, float, shape (N, P).
        right: Contexts of the backward direction, float, shape (N, P).
    """
    n_words = len(model.vocabulary)
    ranks = torch.arange(1, n_words + 1, dtype=torch.float64, device="cpu")
    log_p_alone = ranks.reciprocal().log1p().log()  # up to a constant
    for after_left, before_right in zip(
        model.softmax.of_words(left), model.softmax.of_words(right), strict=True
    ):
        log_p = after_left + before_right - log_p_alone
        yield exclude_words(model, log_p, *SPECIAL_TOKENS)
