"""Picture of a list of changes: one line per word, the most changed word at the top."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from elmo_cli.analysis.change import Change
from elmo_cli.analysis.figures import (
    POINTS,
    check_figure,
    figure_style,
    new_figure,
    printable,
    save_figure,
)
from elmo_cli.errors import InputError, check_choice, counted

MAX_WORDS: Final = 100
"""Maximum number of words in a picture. The words with the largest changes are drawn."""
_LEVEL: Final = 0.05
_INCHES_PER_WORD: Final = 0.2
_AXIS_LABELS: Final = {
    "apd": "mean cosine distance of old and new occurrences",
    "prt": "inverse cosine of the means of old and new occurrences",
    "jsd": "Jensen-Shannon divergence over clusters, in nats",
}


def plot_changes(
    changes: Sequence[Change],
    output: str | Path,
    measure: str = "apd",
    *,
    overwrite: bool = False,
) -> int:
    """Draw the changes of words as points on lines.

    Points are filled if p (or the adjusted p, if there is one) is below 0.05. In SVG and HTML the
    tooltip of each point has the figures of its word. Equal lists give equal files.

    Args:
        changes: Result of `measure_change`, in its order. Words without a change, or with an
            infinite one, are skipped.
        output: Path in .svg, .png, .pdf or .html.
        measure: Measure of the changes, for the label of the axis.
        overwrite: Replace an existing file.

    Returns:
        The number of words that were drawn.

    Raises:
        InputError: No word has a finite change.
        OutputError: `output` has another suffix, exists already or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("measure", measure, tuple(_AXIS_LABELS))
    # The inverse cosine of orthogonal means is infinite.
    measured = [c for c in changes if c.change is not None and math.isfinite(c.change)]
    if not measured:
        raise InputError(f"{output}: no word has enough occurrences to draw its change")
    drawn = measured[:MAX_WORDS]
    title = f"Change of {counted(len(measured), 'word')}"
    if len(drawn) < len(measured):
        title += f", the {len(drawn):,} with the largest changes"
    with figure_style():
        figure, order = _draw(drawn, title, _AXIS_LABELS[measure])
        save_figure(output, figure, title, [_tooltip(drawn[index]) for index in order])
    return len(drawn)


def _draw(changes: Sequence[Change], title: str, axis_label: str) -> tuple[Any, list[int]]:
    """Return the figure, and the indices of the changes in the order of drawing."""
    figure, axes = new_figure(7, 1.2 + _INCHES_PER_WORD * len(changes))
    axes.set_title(title)
    axes.set_xlabel(axis_label)
    values = [change.change or 0 for change in changes]
    rows = list(range(len(changes)))
    axes.hlines(rows, min(0, *values), values, color="0.85", linewidth=1, zorder=1)
    p_values = [_best_p(change) for change in changes]
    has_p = any(p is not None for p in p_values)
    name = "adjusted p" if any(change.adjusted_p is not None for change in changes) else "p"
    is_low = [p is None or p < _LEVEL for p in p_values]
    order: list[int] = []
    for number, low in enumerate((True, False)):
        members = [row for row in rows if is_low[row] == low]
        if not members:
            continue
        style: dict[str, Any] = {"color": "C0", "markerfacecolor": "C0" if low else "white"}
        style["label"] = f"{name} < {_LEVEL}" if low else f"{name} ≥ {_LEVEL}"
        points = [values[row] for row in members], members
        axes.plot(*points, "o", gid=f"{POINTS}{number}", markersize=5, zorder=2, **style)
        order += members
    axes.set_yticks(rows, [printable(change.word) for change in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.margins(x=0.05)
    if has_p:
        axes.legend(loc="lower right")
    return figure, order


def _best_p(change: Change) -> float | None:
    """Return the adjusted p, or else p."""
    return change.p if change.adjusted_p is None else change.adjusted_p


def _tooltip(change: Change) -> str:
    """Return the figures of a word."""
    text = f"{change.word}: {change.change:.4f}, {change.n_old:,} old and {change.n_new:,} new"
    if change.p is not None:
        text += f", p {change.p:.4f}"
    if change.adjusted_p is not None:
        text += f", adjusted p {change.adjusted_p:.4f}"
    return text
