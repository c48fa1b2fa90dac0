"""Picture of the changes of words: points, and behind each the range by chance."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from elmo_cli.analysis.change.measure_change import Change
from elmo_cli.analysis.pictures.drawing import (
    WIDTH,
    Drawing,
    check_figure,
    open_drawing,
    printable,
)
from elmo_cli.errors.checks import check_batch, check_choice, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import Measure

MAX_WORDS: Final = 100
"""Maximum number of words in a picture; they have the largest changes."""
_LEVEL: Final = 0.05
_GREY: Final = "#737373"
"""Colour of the points of words without a p."""
_P_HEIGHT: Final = 17
"""Height of the name of the p above the first row, in points (1/72 inch)."""
_LEGEND_HEIGHT: Final = _P_HEIGHT + 34
"""Height of the name of the p and of the legend above it, in points."""
_CHANCE_LABEL: Final = "by chance (5–95%)"
_CHANCE_CAPTION: Final = (
    "Its band shows what chance gives: the changes between the 5th and the 95th "
    "percentile if the word's occurrences are divided at random. A point inside its "
    "band is no evidence of a change."
)
_AXIS_LABELS: Final = {
    "apd": "mean cosine distance of old and new occurrences",
    "prt": "inverse cosine of the means of old and new occurrences",
    "jsd": "Jensen-Shannon divergence over clusters, in nats",
}


def plot_changes(
    changes: Sequence[Change],
    output: str | Path,
    measure: Measure = "apd",
    *,
    overwrite: bool = False,
) -> int:
    """Draw the changes of words as points.

        changes = measure_change("old.parquet", "new.parquet", permutations=1000)
        plot_changes(changes, "change.svg")

    Behind each point is a band: the changes between the 5th and the 95th percentile of
    random divisions of the occurrences. Points are filled if p (or the adjusted p, if
    there is one) is below 0.05. Changes that were measured without permutations have no
    band and are grey. In SVG and HTML the tooltip of each point has the figures of its
    word. Equal changes give equal files.

    Args:
        changes: Result of `measure_change`, in its order. Words without a change, or
            with an infinite one, are skipped.
        output: Path in .svg, .png, .pdf or .html.
        measure: Measure of the changes, for the label of the axis: "apd", "prt" or
            "jsd".
        overwrite: Replace an existing file.

    Returns:
        The number of words that were drawn.

    Raises:
        InputError: No word has a finite change.
        SettingsError: The measure is unknown.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_choice("measure", measure, tuple(_AXIS_LABELS))
    changes = list(check_batch(changes, "changes"))
    for index, change in enumerate(changes):
        check_type(f"changes[{index}]", change, Change, "a Change, from measure_change")
    check_figure(output, overwrite=overwrite)
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
    caption = "Each point is the change of a word."
    if any(change.by_chance is not None for change in drawn):
        caption += f" {_CHANCE_CAPTION}"
    height = 1.5 + 0.24 * len(drawn)
    with open_drawing(
        output,
        title=title,
        caption=caption,
        width=WIDTH,
        height=height,
        overwrite=overwrite,
    ) as drawing:
        axes = drawing.figure.add_subplot()
        axes.set_xlabel(_AXIS_LABELS[measure])
        has_p = _draw_changes(drawing, axes, drawn)
        axes.set_title(title, pad=_LEGEND_HEIGHT if has_p else None)
    return len(drawn)


def _draw_changes(drawing: Drawing, axes: Any, changes: Sequence[Change]) -> bool:
    """Draw the changes, and return whether they have a p and thus a legend."""
    values = [change.change or 0 for change in changes]
    rows = range(len(changes))
    axes.grid(axis="y", color="black", alpha=0.12, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    _draw_bands(axes, changes)
    p_values = [_drawn_p(change) for change in changes]
    has_p = any(p is not None for p in p_values)
    is_adjusted = any(change.adjusted_p is not None for change in changes)
    p_name = "adjusted p" if is_adjusted else "p"
    low_rows = []
    high_rows = []
    other_rows = []
    for row, p in enumerate(p_values):
        if p is None:
            other_rows.append(row)
        elif p < _LEVEL:
            low_rows.append(row)
        else:
            high_rows.append(row)
    groups = [
        (low_rows, f"{p_name} < {_LEVEL}", "C0", "C0"),
        (high_rows, f"{p_name} ≥ {_LEVEL}", "C0", "white"),
        (other_rows, None, _GREY, _GREY),
    ]
    for index, (members, label, colour, fill_colour) in enumerate(groups):
        explains_p = has_p and colour != _GREY
        if not members and not explains_p:
            continue
        points = np.empty((len(members), 2))
        points[:, 0] = [values[row] for row in members]
        points[:, 1] = members
        drawing.add_points(
            axes,
            name=f"{index}",
            points=points,
            tooltips=[_change_tooltip(changes[row]) for row in members],
            label=label,
            zorder=2,
            color=colour,
            markerfacecolor=fill_colour,
            markersize=5,
        )
    axes.set_yticks(rows, [printable(change.word) for change in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.use_sticky_edges = False  # Bands do not touch the edge either.
    axes.margins(x=0.05)
    if has_p:
        _add_p_values(axes, p_values, p_name)
        from matplotlib.transforms import offset_copy

        above_name = offset_copy(
            axes.transAxes, axes.figure, y=_P_HEIGHT, units="points"
        )
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            bbox_transform=above_name,
            ncols=2,
            columnspacing=1,
            handlelength=1.2,
            frameon=False,
            borderaxespad=0.2,
            handletextpad=0.3,
        )
    return has_p


def _add_p_values(axes: Any, p_values: Sequence[float | None], name: str) -> None:
    """Write the p of each word to the right of its row, below the name of the p."""
    _write_beside(axes, name, row=-0.5, points_above=_P_HEIGHT / 2)
    for row, p in enumerate(p_values):
        if p is not None:
            _write_beside(axes, f"{p:.4f}", row=row)


def _write_beside(axes: Any, text: str, row: float, points_above: float = 0) -> None:
    axes.annotate(
        text,
        (1, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(6, points_above),
        textcoords="offset points",
        va="center",
        fontsize=9,
        alpha=0.7,
    )


def _draw_bands(axes: Any, changes: Sequence[Change]) -> None:
    """Draw the range by chance of each word that has a finite one."""
    rows = []
    lows = []
    widths = []
    for row, change in enumerate(changes):
        if change.by_chance is not None and math.isfinite(sum(change.by_chance)):
            low, high = change.by_chance
            rows.append(row)
            lows.append(low)
            widths.append(high - low)
    if rows:
        axes.barh(
            rows,
            widths,
            left=lows,
            height=0.55,
            color="black",
            alpha=0.18,
            linewidth=0,
            label=_CHANCE_LABEL,
            zorder=1,
        )


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
    if change.by_chance is not None:
        low, high = change.by_chance
        text += f", {low:.4f} to {high:.4f} by chance"
    return text
