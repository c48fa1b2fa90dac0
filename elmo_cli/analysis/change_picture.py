"""Picture of the changes of words, as points on lines."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from elmo_cli.analysis.change import Change
from elmo_cli.analysis.drawing import Drawing, check_figure, open_drawing, printable
from elmo_cli.errors.checks import check_batch, check_choice, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted

MAX_WORDS: Final = 100
"""Maximum number of words in a picture; they have the largest changes."""
_LEVEL: Final = 0.05
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

    Points are filled if p (or the adjusted p, if there is one) is below 0.05. In SVG
    and HTML the tooltip of each point has the figures of its word. Equal lists give
    equal files.

    Args:
        changes: Result of `measure_change`, in its order. Words without a change, or
            with an infinite one, are skipped.
        output: Path in .svg, .png, .pdf or .html.
        measure: Measure of the changes, for the label of the axis.
        overwrite: Replace an existing file.

    Returns:
        The number of words that were drawn.

    Raises:
        InputError: No word has a finite change.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("measure", measure, tuple(_AXIS_LABELS))
    changes = list(check_batch(changes, "changes"))
    for index, change in enumerate(changes):
        check_type(f"changes[{index}]", change, Change, "a Change, from measure_change")
    # The inverse cosine of orthogonal means is infinite.
    measured = [
        change
        for change in changes
        if change.change is not None and math.isfinite(change.change)
    ]
    if not measured:
        raise InputError(f"{output}: no word has enough occurrences to draw its change")
    drawn = measured[:MAX_WORDS]
    title = f"Change of {counted(len(measured), 'word')}"
    if len(drawn) < len(measured):
        title += f", the {len(drawn):,} with the largest changes"
    height = 1.2 + 0.2 * len(drawn)
    with open_drawing(output, title, 7, height) as drawing:
        axes = drawing.figure.add_subplot()
        axes.set_title(title)
        axes.set_xlabel(_AXIS_LABELS[measure])
        _draw_changes(drawing, axes, drawn)
    return len(drawn)


def _draw_changes(drawing: Drawing, axes: Any, changes: Sequence[Change]) -> None:
    values = [change.change or 0 for change in changes]
    rows = range(len(changes))
    axes.hlines(rows, min(0, *values), values, color="0.85", linewidth=1, zorder=1)
    p_values = [_drawn_p(change) for change in changes]
    is_adjusted = any(change.adjusted_p is not None for change in changes)
    p_name = "adjusted p" if is_adjusted else "p"
    low_rows = []
    high_rows = []
    for row, p in enumerate(p_values):
        if p is None or p < _LEVEL:
            low_rows.append(row)
        else:
            high_rows.append(row)
    groups = [
        (low_rows, f"{p_name} < {_LEVEL}", "C0"),
        (high_rows, f"{p_name} ≥ {_LEVEL}", "white"),
    ]
    for number, (members, label, fill_colour) in enumerate(groups):
        if members:
            drawing.add_points(
                axes,
                number,
                [(values[row], row) for row in members],
                [_change_tooltip(changes[row]) for row in members],
                label=label,
                zorder=2,
                color="C0",
                markerfacecolor=fill_colour,
                markersize=5,
            )
    axes.set_yticks(rows, [printable(change.word) for change in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.margins(x=0.05)
    if any(p is not None for p in p_values):
        axes.legend(loc="lower right")


def _drawn_p(change: Change) -> float | None:
    return change.p if change.adjusted_p is None else change.adjusted_p


def _change_tooltip(change: Change) -> str:
    text = (
        f"{change.word}: {change.change:.4f}, {change.n_old:,} old and "
        f"{change.n_new:,} new"
    )
    if change.p is not None:
        text += f", p {change.p:.4f}"
    if change.adjusted_p is not None:
        text += f", adjusted p {change.adjusted_p:.4f}"
    return text
