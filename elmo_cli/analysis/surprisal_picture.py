"""Picture of surprisals."""

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
"""Maximum number of sentences in a picture of surprisals; these are the first ones."""


Measured = ScoredRecord[list[UnitSurprisal]]


_MAX_LABEL: Final = 14  # characters of a word below its bar


_COLOURS: Final = {"forward": "C0", "backward": "C1"}


def plot_surprisals(
    sentences: Sequence[Measured],
    output: str | Path,
    direction: Direction = "forward",
    *,
    overwrite: bool = False,
) -> int:
    """Draw the surprisals of the first sentences with tokens, a row each; return their number."""
    check_figure(output, overwrite=overwrite)
    drawn = [sentence for sentence in sentences if sentence.result][:MAX_SENTENCES]
    if not drawn:
        raise InputError(f"{output}: no sentence has tokens to draw")
    directions = ["forward", "backward"] if direction == "both" else [direction]
    n_words = max(len(sentence.result) for sentence in drawn)
    title, width = (
        f"Surprisal of {counted(len(drawn), 'sentence')}",
        max(6.0, 1 + 0.75 * n_words),
    )
    with open_drawing(output, title, width, 1.7 * len(drawn)) as drawing:
        rows = drawing.figure.subplots(len(drawn), 1, sharey=True, squeeze=False)[:, 0]
        for axes, sentence in zip(rows, drawn, strict=True):
            _draw_sentence(drawing, axes, sentence, directions)
            axes.set_xlim(-0.6, n_words - 0.4)
        if not all(unit.known for sentence in drawn for unit in sentence.result):
            rows[-1].set_xlabel("hatched: not in the vocabulary")
        if len(directions) > 1:
            handles = rows[0].get_legend_handles_labels()
            drawing.figure.legend(*handles, loc="outside upper right", ncols=2)
    return len(drawn)


def _draw_sentence(
    drawing: Drawing, axes: Any, sentence: Measured, directions: Sequence[str]
) -> None:
    units, width = sentence.result, 0.7 / len(directions)
    for number, name in enumerate(directions):
        offset = (number - (len(directions) - 1) / 2) * width
        values = [unit.surprisal[number] for unit in units]
        tooltips = [
            f"{unit.text}: {value:.2f} bits {name}{'' if unit.known else ', unknown'}"
            for unit, value in zip(units, values, strict=True)
        ]
        places = [index + offset for index in range(len(units))]
        style: dict[str, Any] = {"width": width, "color": _COLOURS[name], "label": name}
        bars = drawing.add_bars(axes, places, values, tooltips, **style)
        for bar, unit in zip(bars, units, strict=True):
            if not unit.known:
                bar.set(hatch="////", facecolor="white", edgecolor=_COLOURS[name])
    texts = [unit.text for unit in units]
    labels = [
        text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"
        for text in texts
    ]
    axes.set_xticks(range(len(units)), list(map(printable, labels)))
    axes.set_ylabel("surprisal (bits)")
    title = str(sentence.record.id or sentence.names[-1])
    title = title if sentence.record.id is not None else f"sentence {title}"
    axes.set_title(printable(title), fontsize=8)
