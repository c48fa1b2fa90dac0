"""Picture of changes."""

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
"""Maximum number of words in a picture of changes; they have the largest changes."""


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
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("measure", measure, tuple(_AXIS_LABELS))
    changes = list(check_batch(changes, "changes"))
    for index, change in enumerate(changes):
        check_type(f"changes[{index}]", change, Change, "a Change, from measure_change")
    # The inverse cosine of orthogonal means is infinite.
    measured = [c for c in changes if c.change is not None and math.isfinite(c.change)]
    if not measured:
        raise InputError(f"{output}: no word has enough occurrences to draw its change")
    drawn = measured[:MAX_WORDS]
    title = f"Change of {counted(len(measured), 'word')}"
    if len(drawn) < len(measured):
        title += f", the {len(drawn):,} with the largest changes"
    with open_drawing(output, title, 7, 1.2 + 0.2 * len(drawn)) as drawing:
        axes = drawing.figure.add_subplot()
        axes.set_title(title)
        axes.set_xlabel(_AXIS_LABELS[measure])
        _draw_changes(drawing, axes, drawn)
    return len(drawn)


def _draw_changes(drawing: Drawing, axes: Any, changes: Sequence[Change]) -> None:
    values, rows = [change.change or 0 for change in changes], range(len(changes))
    axes.hlines(rows, min(0, *values), values, color="0.85", linewidth=1, zorder=1)
    p_values = [
        each.p if each.adjusted_p is None else each.adjusted_p for each in changes
    ]
    name = "adjusted p" if any(each.adjusted_p is not None for each in changes) else "p"
    is_low = [p is None or p < _LEVEL for p in p_values]
    for number, low in enumerate((True, False)):
        if members := [row for row in rows if is_low[row] == low]:
            points = [(values[row], row) for row in members]
            tooltips = [_change_tooltip(changes[row]) for row in members]
            label = f"{name} {'<' if low else '≥'} {_LEVEL}"
            style = {
                "color": "C0",
                "markerfacecolor": "C0" if low else "white",
                "markersize": 5,
            }
            drawing.add_points(
                axes, number, points, tooltips, label=label, zorder=2, **style
            )
    axes.set_yticks(rows, [printable(change.word) for change in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.margins(x=0.05)
    if any(p is not None for p in p_values):
        axes.legend(loc="lower right")


def _change_tooltip(change: Change) -> str:
    text = f"{change.word}: {change.change:.4f}, {change.n_old:,} old and {change.n_new:,} new"
    p_values = {"p": change.p, "adjusted p": change.adjusted_p}
    return text + "".join(
        f", {name} {p:.4f}" for name, p in p_values.items() if p is not None
    )
