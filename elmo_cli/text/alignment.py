"""Alignment of tokens with the characters of their text.

A text is tokenized once. What is known by its characters, such as a word between spaces
or an annotated word, has the tokens that its characters overlap:

    text     The right-wing paper        characters 10 to 14 are "wing"
    tokens   The right-wing paper        its token is `right-wing`, which has others too

Every tokenizer keeps the visible characters of a text and their order. Only marks are
normalized, and residues are written in upper case.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from elmo_cli.errors.checks import check_sentence, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import quoted
from elmo_cli.text.tokenizers import MARKS
from elmo_cli.types import Sentence


class CharacterSpan(NamedTuple):
    """Characters of a text, from 0. `text[start:end]` are the characters."""

    start: int
    """Index of the first character."""
    end: int
    """Index after the last one."""


class AlignedTokens(NamedTuple):
    """Tokens that a span of characters overlaps."""

    tokens: slice
    """Their positions. It is empty if the span has no visible characters."""
    are_whole: bool
    """False if one of them has characters outside the span."""


def locate_tokens(text: str, tokens: Sentence) -> list[CharacterSpan]:
    """Return the characters of each token of a text.

        text = "I can't."
        locate_tokens(text, tokenize(text))  # (0, 1), (2, 5), (5, 7), (7, 8)

    Args:
        text: Text, as it was tokenized.
        tokens: All its tokens, by any tokenizer.

    Returns:
        The start and the end of each token, in their order. A token without visible
        characters has an empty span, and two tokens share a mark that became both.

    Raises:
        InputError: The tokens are not those of the text.
    """
    check_type("text", text, str, "a string")
    tokens = check_sentence(tokens, "tokens")
    located = _locate_as_written(text, tokens)
    if located is not None:
        return located
    with suppress(InputError):
        return _locate_characters(text, tokens, _upper_case(text))
    return _locate_characters(text, tokens, _normalized(text))


def align_spans(
    spans: Iterable[CharacterSpan], located: Sequence[CharacterSpan]
) -> Iterator[AlignedTokens]:
    """Yield the tokens that each span of characters overlaps.

    `located` has the characters of all tokens, as `locate_tokens` returns them.
    """
    starts = [token.start for token in located]
    ends = [token.end for token in located]
    for span in spans:
        # From the first token that ends in or after the span, to the last one that
        # starts before its end
        first = bisect_right(ends, span.start)
        stop = max(first, bisect_left(starts, span.end))
        if first == stop or span.start >= span.end:
            yield AlignedTokens(slice(first, first), are_whole=True)
            continue
        are_whole = starts[first] >= span.start and ends[stop - 1] <= span.end
        yield AlignedTokens(slice(first, stop), are_whole)


def _locate_as_written(text: str, tokens: Sentence) -> list[CharacterSpan] | None:
    """Locate tokens that stand in the text as they are; None for others."""
    located: list[CharacterSpan] = []
    end = 0
    for token in tokens:
        start = text.find(token, end)
        if start < 0 or not all(map(_is_blank, text[end:start])):
            return None
        end = start + len(token)
        located.append(CharacterSpan(start, end))
    return located if all(map(_is_blank, text[end:])) else None


def _locate_characters(
    text: str, tokens: Sentence, changed: Iterable[tuple[int, str]]
) -> list[CharacterSpan]:
    """Locate tokens by the characters of the text as a tokenizer may change them.

    One character may become several, and even be in several tokens. Raise an
    `InputError` if the tokens have other characters.

    Args:
        text: The text, for the error.
        tokens: All its tokens.
        changed: Changed characters, each with the index of its character in the text.
    """
    characters = list(changed)
    located: list[CharacterSpan] = []
    position = 0
    for token in tokens:
        start = located[-1].end if located else 0
        end = start
        is_empty = True
        for expected in token.upper():
            if expected.isspace():
                continue
            if expected == "-" and not is_empty and _is_whole_dash(text, end):
                continue
            position = _skip_blanks(characters, position, until=expected)
            if position == len(characters) or characters[position][1] != expected:
                raise _not_aligned_error(text, token)
            index = characters[position][0]
            if is_empty:
                start = index
                is_empty = False
            end = index + 1
            position += 1
        located.append(CharacterSpan(start, end))
    position = _skip_blanks(characters, position)
    if position < len(characters):
        raise _not_aligned_error(text, token=None)
    return located


def _upper_case(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters of a text in upper case, as residues have them."""
    for index, character in enumerate(text):
        for upper in character.upper():
            yield index, upper


def _normalized(text: str) -> Iterator[tuple[int, str]]:
    """Yield the normalized characters of a text in upper case."""
    for index, character in enumerate(text):
        for normalized in character.translate(MARKS).upper():
            yield index, normalized


def _is_whole_dash(text: str, end: int) -> bool:
    """Return whether an en dash ends there, whose token may have two hyphens.

    It has two between words, and a sentence may begin with it. Control characters after
    it do not count, because a tokenizer removes them.
    """
    if text[end - 1] != "–":
        return False
    following = end
    while following < len(text) and _is_control(text[following]):
        following += 1
    return text[following : following + 1] not in ("–", "-")


def _skip_blanks(
    characters: Sequence[tuple[int, str]], position: int, until: str | None = None
) -> int:
    """Return the position of the next visible character, or of an expected one."""
    while position < len(characters):
        _, character = characters[position]
        if character == until or not _is_blank(character):
            break
        position += 1
    return position


def _is_blank(character: str) -> bool:
    """Return whether a tokenizer may remove a character: white space and controls."""
    return character.isspace() or _is_control(character)


def _is_control(character: str) -> bool:
    """Return whether a character is a control character, but not white space."""
    return unicodedata.category(character) == "Cc" and not character.isspace()


def _not_aligned_error(text: str, token: str | None) -> InputError:
    problem = "characters at the end are in no token"
    if token is not None:
        problem = f"the token {quoted(token)} does not follow in it"
    return InputError(
        "the tokens are not those of the text {text}: {problem}",
        remedy="Choose a {--tokenizer} that changes no characters.",
        text=quoted(text),
        problem=problem,
    )
