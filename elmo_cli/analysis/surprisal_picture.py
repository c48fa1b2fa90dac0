"""Picture of the surprisals of sentences, as bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from elmo_cli.analysis.drawing import Drawing, check_figure, open_drawing, printable
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted
from elmo_cli.language_model.scored_records import ScoredRecord
from elmo_cli.language_model.surprisal_table import UnitSurprisal
from elmo_cli.options.model import Direction

MAX_SENTENCES: Final = 50
"""Maximum number of sentences in a picture; these are the first ones."""
_MAX_LABEL: Final = 14
"""Maximum number of characters of a word below its bar."""
_COLOURS: Final = {"forward": "C0", "backward": "C1"}

Measured = ScoredRecord[list[UnitSurprisal]]


def plot_surprisals(
    sentences: Sequence[Measured],
    output: str | Path,
    direction: Direction = "forward",
    *,
    overwrite: bool = False,
) -> int:
    """Draw the surprisals of the first sentences that have tokens, a row each.

    Returns:
        The number of sentences that were drawn.
    """
    check_figure(output, overwrite=overwrite)
    with_tokens = [sentence for sentence in sentences if _drawn_units(sentence)]
    drawn = with_tokens[:MAX_SENTENCES]
    if not drawn:
        raise InputError(f"{output}: no sentence has tokens to draw")
    directions = ["forward", "backward"] if direction == "both" else [direction]
    n_words = max(len(_drawn_units(sentence)) for sentence in drawn)
    title = f"Surprisal of {counted(len(drawn), 'sentence')}"
    width = max(6.0, 1 + 0.75 * n_words)
    height = 1.7 * len(drawn)
    with open_drawing(output, title, width, height) as drawing:
        rows = drawing.figure.subplots(len(drawn), 1, sharey=True, squeeze=False)[:, 0]
        for axes, sentence in zip(rows, drawn, strict=True):
            _draw_sentence(drawing, axes, sentence, directions)
            axes.set_xlim(-0.6, n_words - 0.4)
        if not all(unit.known for sentence in drawn for unit in sentence.result):
            rows[-1].set_xlabel("hatched: not in the vocabulary")
        if len(directions) > 1:
            bars, labels = rows[0].get_legend_handles_labels()
            drawing.figure.legend(bars, labels, loc="outside upper right", ncols=2)
    return len(drawn)


def _drawn_units(sentence: Measured) -> list[UnitSurprisal]:
    """Return the units that have a surprisal; words of the input may have no tokens."""
    return [unit for unit in sentence.result if unit.n_tokens]


def _draw_sentence(
    drawing: Drawing, axes: Any, sentence: Measured, directions: Sequence[str]
) -> None:
    units = _drawn_units(sentence)
    width = 0.7 / len(directions)
    for number, direction in enumerate(directions):
        colour = _COLOURS[direction]
        values = [unit.surprisals[number] for unit in units]
        tooltips = []
        for unit, value in zip(units, values, strict=True):
            tooltip = f"{unit.text}: {value:.2f} bits {direction}"
            tooltips.append(tooltip if unit.known else f"{tooltip}, unknown")
        # The bars of both directions stand side by side.
        offset = (number - (len(directions) - 1) / 2) * width
        bars = drawing.add_bars(
            axes,
            [index + offset for index in range(len(units))],
            values,
            tooltips,
            width=width,
            color=colour,
            label=direction,
        )
        for bar, unit in zip(bars, units, strict=True):
            if not unit.known:
                bar.set(hatch="////", facecolor="white", edgecolor=colour)
    axes.set_xticks(range(len(units)), [_token_label(unit.text) for unit in units])
    axes.set_ylabel("surprisal (bits)")
    if sentence.record.id is not None:
        title = str(sentence.record.id or sentence.names[-1])
    else:
        title = f"sentence {sentence.names[-1]}"
    axes.set_title(printable(title), fontsize=8)


def _token_label(text: str) -> str:
    if len(text) > _MAX_LABEL:
        text = f"{text[: _MAX_LABEL - 1]}…"
    return printable(text)
