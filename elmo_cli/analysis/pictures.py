"""Pictures of changes and surprisals by matplotlib (extra `plot`): SVG, PNG, PDF or HTML.

In SVG and HTML, each point or bar has a tooltip. Equal data give equal files.
"""

import html
import io
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from elmo_cli.analysis.change import Change
from elmo_cli.errors.checks import check_batch, check_choice, check_type
from elmo_cli.errors.exceptions import InputError, OutputNameError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted, listed
from elmo_cli.files.atomic import replaced
from elmo_cli.files.outputs import check_output
from elmo_cli.language_model.scoring import ScoredRecord
from elmo_cli.language_model.surprisal import UnitSurprisal
from elmo_cli.options.model import Direction

SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")
_POINTS: Final = "points-"  # beginning of the SVG id of a group of points
_BARS: Final = "bars-"  # beginning of the SVG id of a bar
_SVG: Final = "http://www.w3.org/2000/svg"
_STYLE: Final[Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 9,
    "pdf.fonttype": 42,  # text that can be selected
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo",  # equal ids in equal figures
    "text.parse_math": False,
}

MAX_WORDS: Final = 100
"""Maximum number of words in a picture of changes; they have the largest changes."""
_LEVEL: Final = 0.05
_AXIS_LABELS: Final = {
    "apd": "mean cosine distance of old and new occurrences",
    "prt": "inverse cosine of the means of old and new occurrences",
    "jsd": "Jensen-Shannon divergence over clusters, in nats",
}

MAX_SENTENCES: Final = 50
"""Maximum number of sentences in a picture of surprisals; these are the first ones."""
Measured = ScoredRecord[list[UnitSurprisal]]
_MAX_LABEL: Final = 14  # characters of a word below its bar
_COLOURS: Final = {"forward": "C0", "backward": "C1"}


def check_figure(path: str | Path, *, overwrite: bool) -> None:
    """Raise an error unless a figure can be written to a path, and matplotlib is installed."""
    if Path(path).suffix.lower() not in SUFFIXES:
        known = listed(SUFFIXES, "or")
        raise OutputNameError(
            f"{path}: unknown suffix {Path(path).suffix!r}. Choose {known}."
        )
    check_output(path, overwrite=overwrite)
    load_extra("plot", "matplotlib", "plot")


class Drawing:
    """Figure, with the tooltip of each point or bar in the order in which they are drawn."""

    def __init__(self, width: float, height: float) -> None:
        """Make an empty figure of a size in inches."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Any = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self.figure)
        self._tooltips: list[str] = []

    def add_points(
        self, axes: Any, number: int, points: Any, tooltips: Iterable[str], **style: Any
    ) -> None:
        """Draw a numbered group of points, shape (n, 2), in one style."""
        axes.plot(*np.transpose(points), "o", gid=f"{_POINTS}{number}", **style)
        self._tooltips += tooltips

    def add_bars(
        self,
        axes: Any,
        places: Any,
        heights: Any,
        tooltips: Iterable[str],
        **style: Any,
    ) -> Any:
        """Draw bars in one style, and return them."""
        bars = axes.bar(places, heights, **style)
        for bar, tooltip in zip(bars, tooltips, strict=True):
            bar.set_gid(f"{_BARS}{len(self._tooltips)}")
            self._tooltips.append(tooltip)
        return bars

    def svg(self) -> bytes:
        """Return the figure as SVG, in which each point and bar has its tooltip."""
        drawn_svg = io.BytesIO()
        self.figure.savefig(drawn_svg, format="svg", metadata={"Date": None})
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
        root = ElementTree.fromstring(drawn_svg.getvalue())
        drawn: list[ElementTree.Element] = []
        for group in root.iter(f"{{{_SVG}}}g"):
            name = group.get("id", "")
            if name.startswith(_POINTS):
                drawn += group.iter(f"{{{_SVG}}}use")
            elif name.startswith(_BARS):
                drawn.append(group)
        for element, tooltip in zip(drawn, self._tooltips, strict=True):
            ElementTree.SubElement(element, f"{{{_SVG}}}title").text = printable(
                tooltip
            )
        text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        return text


@contextmanager
def open_drawing(
    path: str | Path, title: str, width: float, height: float
) -> Iterator[Drawing]:
    """Open a drawing of a size in inches, and write it at the end. An HTML page has the title."""
    import matplotlib

    suffix = Path(path).suffix.lower()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph", UserWarning
        )  # The font may lack characters.
        drawing = Drawing(width, height)
        yield drawing
        with replaced(path) as partial, open(partial, "xb") as file:
            if suffix == ".png":
                drawing.figure.savefig(file, format="png", dpi=150)
            elif suffix == ".pdf":
                drawing.figure.savefig(
                    file, format="pdf", metadata={"CreationDate": None}
                )
            else:
                svg = drawing.svg()
                if suffix == ".html":
                    inline = svg[svg.index(b"<svg") :].decode()
                    page = (
                        Path(__file__)
                        .with_name("figure.html")
                        .read_text(encoding="utf-8")
                    )
                    svg = page.format(
                        title=html.escape(printable(title)), svg=inline
                    ).encode()
                file.write(svg)


def printable(text: str) -> str:
    """Return a text in which U+FFFD replaces characters that cannot be printed."""
    return "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text
    )


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
