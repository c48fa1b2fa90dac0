"""Checks of the lines of a text: whether they are sentences."""

from itertools import pairwise
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.conllu import one_sentence_per_line_remedy
from elmo_cli.records.warnings.sample import Sample

_MIN_LINES: Final = 20
"""Minimum number of lines that another line follows in their paragraph."""
_MIN_SHARE: Final = 0.6
"""Minimum share of these lines that end within a sentence, and that are full."""
_SIMILAR: Final = 0.75
"""Minimum width of a full line, as a share of the width of the longest lines."""
_WIDTHS: Final = (40, 120)
"""Minimum and maximum width of the longest lines."""
_SENTENCE_ENDS: Final = tuple(".!?:;…。！？\"'”’»)]")


def hard_wrapping(sample: Sample) -> Message | None:
    """Return a warning if lines seem to end where a maximum width is reached."""
    if not sample.is_text:
        return None
    numbers = range(1, max(sample.lines, default=0) + 1)
    lines = [sample.lines.get(number, "") for number in numbers]
    followed = [
        line for line, following in pairwise(lines) if " " in line and following
    ]
    if len(followed) < _MIN_LINES:
        return None
    widths = sorted(map(len, followed))
    # Single longer lines do not count.
    width = widths[len(widths) * 9 // 10]
    min_width, max_width = _WIDTHS
    if not min_width <= width <= max_width:
        return None
    n_open = sum(not line.endswith(_SENTENCE_ENDS) for line in followed)
    n_full = sum(_SIMILAR * width <= each <= width * 1.1 for each in widths)
    if min(n_open, n_full) < _MIN_SHARE * len(followed):
        return None
    return Message(
        "the text seems to be hard-wrapped: most lines end within a sentence",
        remedy="Use {--paragraphs True} to join the lines until a blank line.",
    )


def tabs_in_lines(sample: Sample) -> Message | None:
    """Return a warning if the lines of a text are rows of TSV."""
    if not sample.is_text or len(sample.texts) < 2:
        return None
    n_tabs = {text.count("\t") for text in sample.texts}
    if len(n_tabs) != 1 or 0 in n_tabs:
        return None
    return Message(
        "every line of the text has tabs",
        remedy=(
            "If it is a table, use {--input-format tsv} and {--text-column}, and "
            "{--no-header True} if it has no header. If each line has a word, "
            "{to_sentences}",
            "If each line has a word, {to_sentences}",
        ),
        to_sentences=one_sentence_per_line_remedy(sample.source_name),
    )
