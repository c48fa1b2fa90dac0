"""Picture of the surprisals of sentences, as bars.

Sentences that follow each other and differ in a few words only, such as the conditions
of a stimulus, share a panel, with their bars side by side.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elmo_cli.analysis.pictures.drawing import (
    WIDTH,
    Drawing,
    check_figure,
    open_drawing,
    printable,
)
from elmo_cli.errors.checks import check_batch, check_choice, check_sentence, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted
from elmo_cli.language_model.surprisal_table import UnitSurprisal
from elmo_cli.options.model import DIRECTIONS, Direction, reading_directions
from elmo_cli.text.join_tokens import join_tokens

MAX_SENTENCES: Final = 50
"""Maximum number of sentences in a picture; these are the first ones."""
_MAX_TOGETHER: Final = 4
"""Maximum number of sentences in one panel."""
_MAX_WORDS: Final = 15
"""Maximum number of words in one panel; longer sentences go on in the next one."""
_MAX_PANELS: Final = 100
_LABEL_WIDTH: Final = 12
"""Number of characters after which the text below a bar goes on in the next line."""
_MAX_WORD_WIDTH: Final = 16
"""Maximum number of characters of one word below a bar."""
_LEGEND_CHARACTERS: Final = 24
"""Space of the legend with both directions, beside the text of a sentence."""
_HEADING_SIZE: Final = 10
_WORD_SIZE: Final = 10
_VALUE_SIZE: Final = 8.5
_UNKNOWN_ALPHA: Final = 0.3
_SHARED_ALPHA: Final = 0.45
"""Opacity of the bars of words that all sentences of a panel have."""


@dataclass(frozen=True)
class _Sentence:
    """Sentence with its units, without those that have no tokens."""

    name: str
    units: Sequence[UnitSurprisal]


@dataclass(frozen=True)
class _Series:
    """Surprisals of a sentence in one direction, which have one colour."""

    name: str
    """Name of the sentence."""
    text: str
    direction: str
    units: Sequence[UnitSurprisal]
    values: Sequence[float]
    """Surprisals of the units, in bits."""

    def panel(self, start: int) -> "_Series":
        """Return the words of one panel."""
        stop = start + _MAX_WORDS
        return _Series(
            name=self.name,
            text=self.text,
            direction=self.direction,
            units=self.units[start:stop],
            values=self.values[start:stop],
        )


@dataclass(frozen=True)
class _Panel:
    """Series that are drawn side by side."""

    series: Sequence[_Series]
    are_sentences: bool
    """True if the colours are sentences, otherwise directions."""
    is_first: bool
    """True for the beginning of its sentences, above which their text stands."""


def plot_surprisals(
    surprisals: Sequence[UnitSurprisal] | Sequence[Sequence[UnitSurprisal]],
    output: str | Path,
    direction: Direction = "forward",
    *,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> int:
    """Draw the surprisals of one or several sentences as bars.

        texts = ["The keys are here.", "The keys is here."]
        plot_surprisals(measure_surprisal(model, texts, by="word"), "surprisal.svg")

    Up to four sentences that follow each other, and differ in a few words only, share a
    panel, in which the bars of words that differ are darker. Unknown words are grey. In
    SVG and HTML the tooltip of each bar has its figure. Equal surprisals give equal
    files.

    Args:
        surprisals: Result of `measure_surprisal`, of one string or several texts. The
            first 50 sentences are drawn. Those without tokens are skipped.
        output: Path in .svg, .png, .pdf or .html.
        direction: The `direction` of `measure_surprisal`.
        names: Name of each sentence. None numbers them from 1.
        overwrite: Replace an existing file.

    Returns:
        The number of sentences that were drawn.

    Raises:
        InputError: No sentence has tokens, the surprisals are of other directions, or
            there are not as many names as sentences.
        SettingsError: The direction is unknown.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    check_choice("direction", direction, DIRECTIONS)
    directions = reading_directions(direction)
    sentences = _check_sentences(surprisals, names, n_directions=len(directions))
    check_figure(output, overwrite=overwrite)
    with_tokens = [sentence for sentence in sentences if sentence.units]
    if not with_tokens:
        raise InputError(f"{output}: no sentence has tokens to draw")
    panels: list[_Panel] = []
    n_drawn = 0
    for group in _groups(with_tokens[:MAX_SENTENCES]):
        added = list(_panels(group, directions))
        if panels and len(panels) + len(added) > _MAX_PANELS:
            break
        panels += added
        n_drawn += len(group)
    del panels[_MAX_PANELS:]
    title = f"Surprisal of {counted(n_drawn, 'sentence')}"
    has_unknown = any(
        not unit.known
        for panel in panels
        for series in panel.series
        for unit in series.units
    )
    caption = "Each bar is the surprisal of a word in bits."
    notes = []
    if any(panel.are_sentences for panel in panels):
        caption += " Bars of words that differ are darker."
        notes.append("darker: words that differ")
    if has_unknown:
        caption += " Words in grey are not in the vocabulary."
        notes.append("grey: not in the vocabulary")
    n_words = max(len(panel.series[0].units) for panel in panels)
    width = max(WIDTH, 0.6 + n_words * _word_width(panels))
    height = sum(1.9 + 0.2 * len(panel.series) for panel in panels)
    with open_drawing(
        output,
        title=title,
        caption=caption,
        width=width,
        height=height,
        overwrite=overwrite,
    ) as drawing:
        grid = drawing.figure.subplots(len(panels), 1, sharey=True, squeeze=False)
        rows = grid[:, 0]
        all_series = [series for panel in panels for series in panel.series]
        highest = max(max(series.values) for series in all_series)
        for axes, panel in zip(rows, panels, strict=True):
            _draw_panel(drawing, axes, panel)
            axes.set_xlim(-0.6, n_words - 0.4)
            axes.set_ylim(0, 1.15 * highest)  # Values stand on the bars.
            if panel.is_first:
                _add_heading(axes, panel, n_characters=round(72 * width / 6.5))
            axes.set_ylabel("surprisal (bits)")
        rows[-1].set_xlabel("; ".join(notes))
    return n_drawn


def _check_sentences(
    surprisals: Sequence[UnitSurprisal] | Sequence[Sequence[UnitSurprisal]],
    names: Sequence[str] | None,
    *,
    n_directions: int,
) -> list[_Sentence]:
    """Return the sentences with their names, or raise an `InputError`."""
    given: list[Any] = list(check_batch(surprisals, "surprisals"))
    if given and all(isinstance(unit, UnitSurprisal) for unit in given):
        given = [given]  # one text
    if names is None:
        names = [str(number) for number in range(1, len(given) + 1)]
    names = check_sentence(names, "names", "a list of names")
    if len(names) != len(given):
        raise InputError(
            f"names: expected {counted(len(given), 'name')}, found {len(names)}"
        )
    sentences = []
    for index, (name, units) in enumerate(zip(names, given, strict=True)):
        argument = f"surprisals[{index}]"
        wanted = "a list of UnitSurprisal, from measure_surprisal"
        check_type(argument, units, Sequence, wanted)
        drawn = []
        for unit in units:
            check_type(argument, unit, UnitSurprisal, wanted)
            if len(unit.surprisals) != n_directions:
                expected = counted(n_directions, "direction")
                raise InputError(
                    f"{argument}: expected {expected}, found {len(unit.surprisals)}",
                    remedy="Use the {--direction} of measure_surprisal.",
                )
            # Words of the input may have no tokens.
            if unit.n_tokens:
                drawn.append(unit)
        sentences.append(_Sentence(name, drawn))
    return sentences


def _groups(sentences: Sequence[_Sentence]) -> list[list[_Sentence]]:
    """Return the sentences, with those together that are compared with each other."""
    groups: list[list[_Sentence]] = []
    for sentence in sentences:
        has_space = bool(groups) and len(groups[-1]) < _MAX_TOGETHER
        if has_space and _are_similar(groups[-1][0], sentence):
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
    return groups


def _are_similar(first: _Sentence, second: _Sentence) -> bool:
    """Return whether sentences are equally long, and half of their words are equal."""
    words = [unit.text for unit in first.units]
    others = [unit.text for unit in second.units]
    if len(words) != len(others):
        return False
    pairs = zip(words, others, strict=True)
    n_equal = len([word for word, other in pairs if word == other])
    return 2 * n_equal >= len(words)


def _panels(group: Sequence[_Sentence], directions: Sequence[str]) -> Iterator[_Panel]:
    """Yield the panels of sentences that are drawn together."""
    by_direction = []
    for index, direction in enumerate(directions):
        by_direction.append([_series(sentence, index, direction) for sentence in group])
    are_sentences = len(group) > 1
    if are_sentences:
        together = by_direction
    else:
        # The bars of both directions stand side by side.
        together = [[series for [series] in by_direction]]
    n_words = len(group[0].units)
    for all_series in together:
        for start in range(0, n_words, _MAX_WORDS):
            parts = [series.panel(start) for series in all_series]
            yield _Panel(parts, are_sentences, is_first=start == 0)


def _series(sentence: _Sentence, index: int, direction: str) -> _Series:
    """Return the series of a sentence in a direction, by its index."""
    return _Series(
        name=sentence.name,
        text=join_tokens([unit.text for unit in sentence.units]),
        direction=direction,
        units=sentence.units,
        values=[unit.surprisals[index] or 0.0 for unit in sentence.units],
    )


def _word_width(panels: Sequence[_Panel]) -> float:
    """Return the width of a word in inches, which has space for values and labels."""
    n_series = max(len(panel.series) for panel in panels)
    n_characters = 0
    for panel in panels:
        for series in panel.series:
            for unit in series.units:
                for line in _unit_label(unit.text).split("\n"):
                    n_characters = max(n_characters, len(line))
    return max(0.6, 0.31 * n_series, 0.085 * n_characters)


def _draw_panel(drawing: Drawing, axes: Any, panel: _Panel) -> None:
    n_series = len(panel.series)
    width = min(0.5, 0.9 / n_series)
    words = _words_below_bars(panel)
    for series_index, series in enumerate(panel.series):
        colour = f"C{series_index}"
        tooltips = []
        for unit, value in zip(series.units, series.values, strict=True):
            tooltip = f"{unit.text}: {value:.2f} bits {series.direction}"
            if panel.are_sentences:
                tooltip = f"{series.name}, {tooltip}"
            tooltips.append(tooltip if unit.known else f"{tooltip}, unknown")
        offset = (series_index - (n_series - 1) / 2) * width
        bars = drawing.add_bars(
            axes,
            positions=[index + offset for index in range(len(series.units))],
            heights=series.values,
            tooltips=tooltips,
            width=0.9 * width,
            color=colour,
            label=series.name,
        )
        for index, (bar, unit) in enumerate(zip(bars, series.units, strict=True)):
            if not unit.known:
                bar.set(color="black", alpha=_UNKNOWN_ALPHA)
            elif panel.are_sentences and len(words[index]) == 1:
                bar.set(alpha=_SHARED_ALPHA)
        values = [f"{value:.1f}" for value in series.values]
        axes.bar_label(bars, values, padding=1, fontsize=_VALUE_SIZE)
    _label_words(axes, words, n_series)


def _words_below_bars(panel: _Panel) -> list[dict[str, str]]:
    """Return the different words at each position, with the colours of their bars."""
    words: list[dict[str, str]] = [{} for _ in panel.series[0].units]
    for series_index, series in enumerate(panel.series):
        for index, unit in enumerate(series.units):
            words[index].setdefault(_unit_label(unit.text), f"C{series_index}")
    return words


def _label_words(axes: Any, words: Sequence[dict[str, str]], n_series: int) -> None:
    """Write the words below their bars. Words that differ are bold.

    If each of the sentences has its own word, the words have the colours of their bars.
    """
    labels: list[str] = []
    for index, colours in enumerate(words):
        if len(colours) == 1:
            labels.extend(colours)
            continue
        n_lines = 0
        for label, colour in colours.items():
            axes.annotate(
                label,
                (index, 0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0, -3.5 - 1.2 * _WORD_SIZE * n_lines),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=_WORD_SIZE,
                weight="bold",
                color=colour if len(colours) == n_series else "black",
            )
            n_lines += 1 + label.count("\n")
        # The texts stand in the space of this label.
        labels.append("\n".join([" "] * n_lines))
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(axis="x", length=0)


def _unit_label(text: str) -> str:
    """Return a word or region in lines below its bar."""
    lines = textwrap.wrap(
        printable(text),
        _LABEL_WIDTH,
        break_long_words=False,
        max_lines=3,
        placeholder=" …",
    )
    return "\n".join(map(_cut, lines))


def _cut(line: str) -> str:
    if len(line) <= _MAX_WORD_WIDTH:
        return line
    return f"{line[: _MAX_WORD_WIDTH - 1]}…"


def _add_heading(axes: Any, panel: _Panel, n_characters: int) -> None:
    """Write the sentences of a panel above it, and what its colours mean."""
    texts = []
    if not panel.are_sentences and len(panel.series) > 1:
        n_characters -= _LEGEND_CHARACTERS
    for series in panel.series:
        name = series.name
        if panel.are_sentences and series.direction == "backward":
            name = f"{name}, backward"
        text = f"{name}: {series.text}"
        texts.append(printable(textwrap.shorten(text, n_characters, placeholder="…")))
    bars, _ = axes.get_legend_handles_labels()
    if panel.are_sentences:
        legend = axes.legend(
            bars,
            texts,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            frameon=False,
            fontsize=_HEADING_SIZE,
        )
        for index, handle in enumerate(legend.legend_handles):
            # The legend shows the colour, also if the first bar is lighter or grey.
            handle.set(color=f"C{index}", alpha=None)
        return
    axes.set_title(texts[0], fontsize=_HEADING_SIZE)
    if len(bars) > 1:
        directions = [series.direction for series in panel.series]
        axes.legend(
            bars,
            directions,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0.2,
            frameon=False,
            ncols=2,
        )
