"""Paragraphs of hard-wrapped text: lines until a blank line belong together."""

import logging
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from elmo_cli.text.lines import InvalidLine

logger = logging.getLogger(__name__)

_SAMPLE_LINES: Final = 200
"""Number of lines at the beginning of a text that `warn_about_wrapping` checks."""
_MIN_LINES: Final = 20
"""Minimum number of these lines that another line follows in their paragraph."""
_MIN_SHARE: Final = 0.6
"""Minimum share of these lines that end without punctuation, and that have similar widths."""
_MIN_WIDTH, _MAX_WIDTH = 40, 120
_SIMILAR: Final = 0.75
"""Minimum width of a full line, as a share of the width of the longest lines."""
_SENTENCE_ENDS: Final = tuple(".!?:;…。！？\"'”’»)]")


class Paragraph(str):
    """Paragraph as one line."""

    number: int
    """Number of its first line, from 0."""


def join_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paragraphs of a text. Blank lines separate them.

    An `InvalidLine` is a paragraph of its own.
    """
    parts: list[str] = []
    start = 0
    for number, line in enumerate(lines):
        is_valid = not isinstance(line, InvalidLine)
        if line and is_valid:
            start = start if parts else number
            parts.append(line)
            continue
        if parts:
            yield _paragraph(start, parts)
            parts = []
        if not is_valid:
            yield line
    if parts:
        yield _paragraph(start, parts)


def _paragraph(number: int, lines: list[str]) -> Paragraph:
    paragraph = Paragraph(" ".join(lines))
    paragraph.number = number
    return paragraph


def warn_about_wrapping(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines. Log a warning if the text seems to be hard-wrapped."""
    sample: list[str] = []
    lines = iter(lines)
    for line in lines:
        yield line
        sample.append(line)
        if len(sample) == _SAMPLE_LINES:
            break
    if is_wrapped(sample):
        logger.warning(
            "Warning: the text seems to be hard-wrapped: most lines end within a sentence. Use "
            "--paragraphs to join the lines until a blank line."
        )
    yield from lines


def is_wrapped(lines: list[str]) -> bool:
    """Return whether the lines of a text seem to end where a maximum width is reached."""
    followed = [line for line, following in pairwise(lines) if line and following]
    if len(followed) < _MIN_LINES:
        return False
    widths = sorted(map(len, followed))
    width = widths[len(widths) * 9 // 10]  # Single longer lines do not count.
    n_open = sum(not line.endswith(_SENTENCE_ENDS) for line in followed)
    n_full = sum(_SIMILAR * width <= each <= width * 1.1 for each in widths)
    is_usual = _MIN_WIDTH <= width <= _MAX_WIDTH
    return is_usual and min(n_open, n_full) >= _MIN_SHARE * len(followed)
