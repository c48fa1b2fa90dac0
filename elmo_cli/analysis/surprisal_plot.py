"""Picture of surprisals: the words of each sentence, with bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from elmo_cli.analysis.figures import (
    BARS,
    check_figure,
    empty_figure,
    figure_style,
    printable,
    save_figure,
)
from elmo_cli.errors import InputError, counted
from elmo_cli.language_model.scored_records import ScoredRecord
from elmo_cli.language_model.surprisal import Direction
from elmo_cli.language_model.surprisal_table import UnitSurprisal

MAX_SENTENCES: Final = 50
"""Maximum number of sentences in a picture; these are the first ones."""
Measured = ScoredRecord[list[UnitSurprisal]]

_INCHES_PER_SENTENCE: Final = 1.7
_INCHES_PER_WORD: Final = 0.75
_MIN_INCHES: Final = 6.0
_MAX_LABEL: Final = 14
"""Maximum number of characters of a word below its bar."""
_COLOURS: Final = {"forward": "C0", "backward": "C1"}


def plot_surprisals(
    sentences: Sequence[Measured],
    output: str | Path,
    direction: Direction = "forward",
    *,
    overwrite: bool = False,
) -> int:
    """Draw the surprisal of each token, word or region of sentences as bars.

    Each sentence has a row. Bars of unknown words are hatched. In SVG and HTML each bar shows its
    figures under the mouse pointer. Equal surprisals give equal files.

    Args:
        sentences: Sentences of `SurprisalTable.measure`. Those after `MAX_SENTENCES`, and those
            without tokens, are skipped.
        output: Path in .svg, .png, .pdf or .html.
        direction: Direction of the surprisals.
        overwrite: Replace an existing file.

    Returns:
        The number of sentences that were drawn.

    Raises:
        InputError: No sentence has tokens.
        OutputError: `output` has another suffix, exists already or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_figure(output, overwrite=overwrite)
    drawn = [sentence for sentence in sentences if sentence.result][:MAX_SENTENCES]
    if not drawn:
        raise InputError(f"{output}: no sentence has tokens to draw")
    directions = ["forward", "backward"] if direction == "both" else [direction]
    title = f"Surprisal of {counted(len(drawn), 'sentence')}"
    with figure_style():
        figure, tooltips = _draw(drawn, directions)
        save_figure(output, figure, title, tooltips)
    return len(drawn)


def _draw(sentences: Sequence[Measured], directions: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the figure, and the text of each bar in the order of drawing."""
    n_words = max(len(sentence.result) for sentence in sentences)
    width = max(_MIN_INCHES, 1 + _INCHES_PER_WORD * n_words)
    figure = empty_figure(width, _INCHES_PER_SENTENCE * len(sentences))
    rows = figure.subplots(len(sentences), 1, sharey=True, squeeze=False)[:, 0]
    tooltips: list[str] = []
    for axes, sentence in zip(rows, sentences, strict=True):
        tooltips += _draw_sentence(axes, sentence, directions, n_words, len(tooltips))
    if not all(unit.known for sentence in sentences for unit in sentence.result):
        rows[-1].set_xlabel("hatched: not in the vocabulary")
    if len(directions) > 1:
        figure.legend(*rows[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure, tooltips


def _draw_sentence(
    axes: Any, sentence: Measured, directions: Sequence[str], n_words: int, n_bars: int
) -> list[str]:
    """Draw the bars of a sentence, and return their texts; `n_bars` were drawn before."""
    units = sentence.result
    width = 0.7 / len(directions)
    tooltips: list[str] = []
    for number, name in enumerate(directions):
        offset = (number - (len(directions) - 1) / 2) * width
        values = [unit.surprisal[number] for unit in units]
        places = [index + offset for index in range(len(units))]
        bars = axes.bar(places, values, width, color=_COLOURS[name], label=name)
        for bar, unit, value in zip(bars, units, values, strict=True):
            bar.set_gid(f"{BARS}{n_bars + len(tooltips)}")
            unknown = "" if unit.known else ", unknown"
            tooltips.append(f"{unit.text}: {value:.2f} bits {name}{unknown}")
            if not unit.known:
                bar.set(hatch="////", facecolor="white", edgecolor=_COLOURS[name])
    axes.set_xlim(-0.6, n_words - 0.4)
    axes.set_xticks(range(len(units)), [_label(unit) for unit in units])
    axes.set_ylabel("bits")
    axes.set_title(printable(_title(sentence)), loc="left", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return tooltips


def _title(sentence: Measured) -> str:
    name = str(sentence.names[-1])
    return name if sentence.record.id is not None else f"sentence {name}"


def _label(unit: UnitSurprisal) -> str:
    """Return the text below a bar."""
    text = unit.text if len(unit.text) <= _MAX_LABEL else f"{unit.text[: _MAX_LABEL - 1]}…"
    return printable(text)
