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
from elmo_cli.errors.wording import excerpt
from elmo_cli.language_model.candidates import exclude_words
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.model.vocabulary import SPECIAL_TOKENS
from elmo_cli.types import Sentence, Text

GAP: Final = "___"
"""Token that marks the word to predict."""
_MASK: Final = r"\[(?:MASK|BLANK)\]|<(?:mask|blank)>"
"""Marks of other programs, in capitals or not."""
_GAP_TOKEN: Final = re.compile(rf"_+|{_MASK}", re.IGNORECASE)
"""Token that is a gap."""
_GAP_IN_TEXT: Final = re.compile(
    r"_{3,}"
    # One or two `_` that touch a letter are part of a name, such as __init__.
    r"""|(?<![^\s"'\u2018\u201c([])_{1,2}(?![^\s.,;:!?"'\u2019\u201d)\]\u2026])"""
    rf"|{_MASK}",
    re.IGNORECASE,
)
"""Gap in a raw text."""


def cut_around_gaps(text: str, tokenize: Callable[[str], Sentence]) -> Sentence:
    """Tokenize a raw text, in which each gap becomes the token `GAP`.

    A gap is _ or __ alone, `___` or more wherever they stand, or a mask of another
    program, such as [MASK].
    """
    first, *others = _GAP_IN_TEXT.split(text)
    tokens = list(tokenize(first))
    for part in others:
        tokens += [GAP, *tokenize(part)]
    return tokens


def mark_gaps(tokens: Sentence) -> Sentence:
    """Return tokens with `GAP` in place of each gap, such as [MASK]."""
    return [GAP if _GAP_TOKEN.fullmatch(token) else token for token in tokens]


def has_gap(text: Text) -> bool:
    """Return whether a raw text, or a list of tokens, has a gap."""
    if isinstance(text, str):
        return _GAP_IN_TEXT.search(text) is not None
    return GAP in mark_gaps(text)


def check_gaps(tokens: Sentence) -> Sentence:
    """Return the tokens of a text, with `GAP` for the word to predict.

    Raises:
        InputError: There are several gaps.
    """
    tokens = mark_gaps(tokens)
    n_gaps = tokens.count(GAP)
    if n_gaps > 1:
        raise InputError(
            f"{excerpt(' '.join(tokens))}: {n_gaps} gaps ({GAP})",
            remedy="Fill all but one of them.",
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
