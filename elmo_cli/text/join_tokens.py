"""Text of a sentence from its tokens, for people to read.

It guesses where the sentence had spaces. Nothing is computed from this text.
"""

import re
from collections.abc import Sequence
from typing import Final

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
    """Return whether the text has a space before each token, never before the first."""
    spaces = []
    open_quotes: set[str] = set()
    is_after_opening = True
    for index, token in enumerate(tokens):
        opens = False
        closes = False
        if token in _QUOTES:
            closes = _closes(tokens, index, is_open=token in open_quotes)
            opens = not closes
            if opens:
                open_quotes.add(token)
            else:
                open_quotes.discard(token)
        elif token[:1] in _QUOTES and not _CLITIC.fullmatch(token):
            open_quotes.add(token[0])  # A quote that was not split from its word.
        before = tokens[index - 1] if index else ""
        has_space = not (
            is_after_opening
            or closes
            or _CLOSING_MARK.fullmatch(token)
            or _CLITIC.fullmatch(token)
            or (_CJK.match(token) and _CJK.search(before[-1:]))
        )
        spaces.append(has_space)
        after = tokens[index + 1] if index + 1 < len(tokens) else ""
        is_after_opening = bool(
            opens
            or _OPENING_MARK.fullmatch(token)
            or (token in _CURRENCY and after[:1].isdigit())
            or _ELISION.fullmatch(token)
        )
    return spaces


def _closes(tokens: Sequence[str], index: int, *, is_open: bool) -> bool:
    """Return whether a quote ends what is quoted, or an apostrophe ends a word."""
    if index == len(tokens) - 1:
        return True
    if index == 0:
        return False
    if is_open:
        return True
    before = tokens[index - 1]
    # It ends what an earlier sentence began.
    if before[-1:] in ".,!?…" and tokens[index + 1][:1].islower():
        return True
    # An apostrophe of a plural, as in `the girls ' room`.
    is_plural = tokens[index] == "'" and before[-1:] in ("s", "S")
    return is_plural and tokens[index] not in tokens[index + 1 :]
