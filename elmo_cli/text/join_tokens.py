"""Text of a sentence from its tokens, for people to read.

It guesses where the sentence had spaces. Nothing is computed from this text.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

QuoteRole = Literal["opens", "closes"]

_CLITIC: Final = re.compile(r"n't|'(?:s|t|m|d|re|ve|ll)", re.IGNORECASE)
_ELISION: Final = re.compile(r"\w*[^\Ws]'|s'", re.IGNORECASE)
"""A shortened word before another, such as `l'` in French."""
_CLOSING_MARK: Final = re.compile(r"[.,;:!?%)\]}”’»…]+|''")
_OPENING_MARK: Final = re.compile(r"[(\[{“„‘«¿¡]+|``")
_CURRENCY: Final = ("$", "£", "€", "¥", "#")
_QUOTES: Final = ("'", '"')
_CJK: Final = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")
"""Characters of Chinese and Japanese, which have no spaces between them."""


def join_tokens(tokens: Sequence[str]) -> str:
    """Return the text of a sentence: `do n't !` becomes `don't!`."""
    parts = []
    for token, has_space in zip(tokens, spaces_before(tokens), strict=True):
        parts.append(f" {token}" if has_space else token)
    return "".join(parts)


def spaces_before(tokens: Sequence[str]) -> list[bool]:
    """Return whether the text has a space before each token, never before the first.

    There is none if the token before sticks to the next one, as in `(a`, or the token
    itself to the one before, as in `a,`.
    """
    roles = _quote_roles(tokens)
    spaces = []
    for index, token in enumerate(tokens):
        if index == 0:
            has_space = False
        else:
            before = tokens[index - 1]
            has_space = not (
                _sticks_to_next(before, token, roles[index - 1])
                or _sticks_to_previous(token, before, roles[index])
            )
        spaces.append(has_space)
    return spaces


def _sticks_to_next(token: str, following: str, role: QuoteRole | None) -> bool:
    """Return whether no space is between a token and the one that follows."""
    if role == "opens" or _OPENING_MARK.fullmatch(token) or _ELISION.fullmatch(token):
        return True
    return token in _CURRENCY and following[:1].isdigit()


def _sticks_to_previous(token: str, before: str, role: QuoteRole | None) -> bool:
    """Return whether no space is between a token and the one before."""
    if role == "closes" or _CLOSING_MARK.fullmatch(token) or _CLITIC.fullmatch(token):
        return True
    return bool(_CJK.match(token) and _CJK.search(before[-1:]))


def _quote_roles(tokens: Sequence[str]) -> list[QuoteRole | None]:
    """Return whether each token is a quote that opens or closes; None for others.

    `'` and `"` look the same on both sides, so what is open decides.
    """
    roles: list[QuoteRole | None] = []
    open_quotes: set[str] = set()
    for index, token in enumerate(tokens):
        role: QuoteRole | None = None
        if token in _QUOTES:
            if _closes(tokens, index, is_open=token in open_quotes):
                role = "closes"
                open_quotes.discard(token)
            else:
                role = "opens"
                open_quotes.add(token)
        elif token[:1] in _QUOTES and not _CLITIC.fullmatch(token):
            open_quotes.add(token[0])  # A quote that was not split from its word.
        roles.append(role)
    return roles


def _closes(tokens: Sequence[str], index: int, *, is_open: bool) -> bool:
    """Return whether a quote ends what is quoted, or an apostrophe ends a word.

    `is_open` is True if an earlier quote of the same kind is open.
    """
    is_first = index == 0
    is_last = index == len(tokens) - 1
    if is_last:
        return True
    if is_first:
        return False
    if is_open:
        return True
    before = tokens[index - 1]
    # It ends what an earlier sentence began.
    if before[-1:] in ".,!?…" and tokens[index + 1][:1].islower():
        return True
    # An apostrophe of a plural, as in `the girls ' room`. If another one follows, they
    # enclose a quotation.
    ends_in_s = before[-1:] in ("s", "S")
    return tokens[index] == "'" and ends_in_s and "'" not in tokens[index + 1 :]
