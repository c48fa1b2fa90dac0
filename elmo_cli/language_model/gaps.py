"""Gaps in texts."""

import re
from collections.abc import Callable
from typing import Final

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError

GAP: Final = "___"  # token that marks the word to predict


_MASK: Final = re.compile(r"\[MASK\]|<mask>")  # tokens of other models for it


def check_text(text: Sentence) -> Sentence:
    """Return a list of tokens; raise an `InputError` if it has several gaps, or a mask of BERT."""
    if mask := _MASK.search("".join(text)):
        raise InputError(
            f"{' '.join(text)}: write {GAP} for the word to predict, not {mask[0]}."
        )
    if (n_gaps := text.count(GAP)) > 1:
        raise InputError(
            f"{' '.join(text)}: {n_gaps} gaps ({GAP}). Fill all but one of them."
        )
    return text


def cut_around_gaps(text: str, cut: Callable[[str], Sentence]) -> Sentence:
    """Tokenize a text; three or more `_` are one token, wherever they stand."""
    first, *others = re.split(r"_{3,}", text)
    return [*cut(first), *(token for part in others for token in (GAP, *cut(part)))]
