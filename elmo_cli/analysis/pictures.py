"""Picture of the occurrences of a word. Points that are near each other have similar vectors.

Files of figures of matplotlib: SVG, PNG, PDF, or an HTML page (extra `plot`).

In SVG and HTML, each point or bar has a tooltip. Equal figures give equal files.

Picture of a list of changes: one line per word, the most changed word at the top.

Picture of surprisals: the words of each sentence, with bars.
"""

import html
import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.change import Change
from elmo_cli.analysis.occurrences import (
    EmbeddedOccurrence,
    VectorFiles,
    find_word,
    paths_of,
    sources_of,
)
from elmo_cli.atomic import check_output, replaced
from elmo_cli.errors import InputError, OutputError, check_choice, counted, load_extra
from elmo_cli.language_model.scoring import ScoredRecord
from elmo_cli.language_model.surprisal import UnitSurprisal
from elmo_cli.outputs.reader import Activations
from elmo_cli.settings import Direction

SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")
POINTS: Final = "points-"
"""Prefix of the SVG ids of groups of points."""
BARS: Final = "bars-"
"""Prefix of the SVG ids of bars."""
_SVG: Final = "http://www.w3.org/2000/svg"
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>svg {{ width: 100%; height: auto; }}</style>
{svg}
</html>
"""
_STYLE: Final[Any] = {
    "font.size": 9,
    "pdf.fonttype": 42,  # text that can be selected
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo",  # equal ids in equal figures
    "text.parse_math": False,
}


def check_figure(path: str | Path, *, overwrite: bool) -> None:
    """Raise an error unless a figure can be written to a path.

    Raises:
        OutputError: The path has another suffix, exists already or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise OutputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    check_output(path, overwrite=overwrite)
    load_extra("plot", "matplotlib", "plot")


@contextmanager
def figure_style() -> Iterator[None]:
    """Open a context with the style of the figures, to draw and save one."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # The font may lack characters.
        yield


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of a size in inches, and its axes."""
    figure = empty_figure(width, height)
    return figure, figure.add_subplot()


def empty_figure(width: float, height: float) -> Any:
    """Return a figure of a size in inches, without axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(path: str | Path, figure: Any, title: str, tooltips: Sequence[str]) -> None:
    """Write a figure in the format of the suffix.

    Args:
        path: Path of the file.
        figure: Figure, drawn in `figure_style`. The id of each group of points begins with
            `POINTS`, and the id of each bar with `BARS`.
        title: Title of an HTML page.
        tooltips: Text of each point or bar, in the order in which they are drawn.
    """
    suffix = Path(path).suffix.lower()
    with replaced(path) as partial, open(partial, "xb") as file:
        if suffix == ".png":
            figure.savefig(file, format="png", dpi=150)
        elif suffix == ".pdf":
            figure.savefig(file, format="pdf", metadata={"CreationDate": None})
        else:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            svg = _add_tooltips(drawn.getvalue(), tooltips)
            if suffix == ".html":
                inline = svg[svg.index(b"<svg") :].decode()
                svg = _PAGE.format(title=html.escape(printable(title)), svg=inline).encode()
            file.write(svg)


def printable(text: str) -> str:
    """Return a text in which U+FFFD replaces characters that cannot be printed."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _add_tooltips(svg: bytes, tooltips: Sequence[str]) -> bytes:
    """Return an SVG in which each point and bar has a tooltip."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    drawn: list[ElementTree.Element] = []
    for group in root.iter(f"{{{_SVG}}}g"):
        name = group.get("id", "")
        if name.startswith(POINTS):
            drawn += group.iter(f"{{{_SVG}}}use")
        elif name.startswith(BARS):
            drawn.append(group)
    for element, tooltip in zip(drawn, tooltips, strict=True):
        ElementTree.SubElement(element, f"{{{_SVG}}}title").text = printable(tooltip)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


METHODS: Final = ("pca", "tsne")
MIN_VECTORS: Final = {"pca": 3, "tsne": 30}
"""Minimum number of occurrences. A picture of fewer shows the method and not the word."""
MAX_POINTS: Final = 2000
MAX_LABELS: Final = 40
_LABEL_TOKENS: Final = 3
"""Number of tokens of a label on either side of the word."""
_SEED: Final = 0


class Picture(NamedTuple):
    """Result of a drawing."""

    n_occurrences: int
    """Number of occurrences of the word."""
    n_drawn: int
    """Number of points."""
    variance: tuple[float, ...]
    """Share of the variance on each axis. Empty for t-SNE, whose axes have no meaning."""


def plot_occurrences(
    files: VectorFiles | Activations,
    word: str,
    output: str | Path,
    *,
    method: str = "pca",
    clusters: int | None = None,
    layers: str | None = None,
    overwrite: bool = False,
    on_step: Callable[[str], object] = lambda step: None,
) -> Picture:
    """Draw the occurrences of a word as points, with the sentences of some as labels.

    Equal occurrences always give equal files.

    Args:
        files: Files of `open_vectors` or `open_activations`. Each has a colour.
        word: Target word of the files, with all its forms, or any other word as it is written.
        output: Path in .svg, .png, .pdf, or .html, a page that needs no other file. In SVG and
            HTML the tooltip of each point is its sentence.
        method: `pca`, whose axes have the largest variance, or `tsne`.
        clusters: Number of clusters of k-means. With it, clusters have colours instead of files.
        layers: Numbers separated by commas of the layers whose mean is drawn. None is all layers
            but the token layer.
        overwrite: Replace an existing file.
        on_step: Called with the name of each step when it begins.

    Raises:
        InputError: The word has too few occurrences, or a file has no vectors of its tokens.
        OutputError: `output` has another suffix, exists already or cannot be written.
        ElmoError: A package is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("method", method, METHODS)
    load_extra("plot", "sklearn", "plot")
    on_step("reading")
    occurrences = find_word(files, word, layers)
    paths = [str(path) for source in sources_of(files) for path in paths_of(source)]
    n_occurrences = len(occurrences)
    _check_number(paths, word, n_occurrences, method, clusters)
    occurrences = _sample(occurrences)
    vectors = _stack(occurrences, word)
    on_step("projecting")
    points, variance = _project(vectors, method)
    groups = [str(each.location.path) for each in occurrences]
    if clusters is not None:
        groups = _cluster(vectors, clusters)
        paths = [f"cluster {number}" for number in range(1, clusters + 1)]
    title = f"{word}: {counted(n_occurrences, 'occurrence')}"
    if len(occurrences) < n_occurrences:
        title += f", {len(occurrences):,} of them drawn"
    on_step("drawing")
    with figure_style():
        names = list(dict.fromkeys(path for path in paths if path in groups))
        figure, order = _draw(_Drawing(title, points, names, groups, occurrences, variance))
        with_file = _has_several_files(files)
        tooltips = [_tooltip(occurrences[index], with_file=with_file) for index in order]
        save_figure(output, figure, title, tooltips)
    return Picture(n_occurrences, len(occurrences), variance)


def _has_several_files(files: VectorFiles | Activations) -> bool:
    """Return whether there are several files, so that tooltips name the file."""
    return sum(len(paths_of(source)) for source in sources_of(files)) > 1


def _check_number(
    paths: Sequence[str], word: str, n_occurrences: int, method: str, clusters: int | None
) -> None:
    """Raise an `InputError` if there are too few occurrences for a picture."""
    minimum = max(MIN_VECTORS[method], clusters or 0)
    if n_occurrences < minimum:
        number = counted(n_occurrences, "occurrence") if n_occurrences else "none"
        files = f"{paths[0]} and the other files" if len(paths) > 1 else paths[0]
        is_enough = method == "tsne" and n_occurrences >= MIN_VECTORS["pca"]
        advice = ". --method pca needs 3." if is_enough else ""
        raise InputError(
            f"{word!r}: expected {minimum} or more occurrences, found {number} in {files}{advice}"
        )


def _sample(occurrences: list[EmbeddedOccurrence]) -> list[EmbeddedOccurrence]:
    """Return at most `MAX_POINTS` occurrences, in their order."""
    if len(occurrences) <= MAX_POINTS:
        return occurrences
    chosen = np.random.default_rng(_SEED).choice(len(occurrences), MAX_POINTS, replace=False)
    return [occurrences[index] for index in sorted(chosen)]


def _stack(occurrences: list[EmbeddedOccurrence], word: str) -> NDArray[np.float32]:
    """Return the vectors of occurrences, shape (n, W)."""
    expected = len(occurrences[0].vector)
    for each in occurrences:
        if len(each.vector) != expected:
            raise InputError(
                f"{each.location.path}: expected vectors of width {expected:,}, as in "
                f"{occurrences[0].location.path}, found {len(each.vector):,}"
            )
    vectors = np.stack([each.vector for each in occurrences]).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InputError(
            f"{word!r}: some vectors have values that are not finite (NaN or infinity)"
        )
    if (vectors == vectors[0]).all():
        raise InputError(
            f"{word!r}: the vectors of all occurrences are equal, as they are in layer 0"
        )
    return vectors


def _project(
    vectors: NDArray[np.float32], method: str
) -> tuple[NDArray[np.floating], tuple[float, ...]]:
    """Return points in the plane, shape (n, 2), and the shares of the variance on their axes."""
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
        return pca.transform(vectors), tuple(map(float, pca.explained_variance_ratio_))
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", metric="cosine", random_state=_SEED)
    return tsne.fit_transform(vectors), ()


def _cluster(vectors: NDArray[np.float32], n_clusters: int) -> list[str]:
    """Return the cluster of each vector, by k-means. The largest cluster is `cluster 1`."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=10, random_state=_SEED).fit_predict(vectors)
    order = np.argsort(-np.bincount(labels, minlength=n_clusters), kind="stable")
    ranks = np.argsort(order)
    return [f"cluster {ranks[label] + 1}" for label in labels]


def _tooltip(embedded: EmbeddedOccurrence, *, with_file: bool) -> str:
    """Return the location and the sentence of an occurrence, with the word marked."""
    name = embedded.location.name
    name = f"{embedded.location.path}:{name}" if with_file else name
    return f"{name}: {embedded.occurrence.marked}"


class _Drawing(NamedTuple):
    """Content of a picture."""

    title: str
    points: NDArray[np.floating]
    names: Sequence[str]
    """Names of the groups in the order of the legend."""
    groups: Sequence[str]
    """Group of each point. Each group has a colour."""
    occurrences: Sequence[EmbeddedOccurrence]
    variance: tuple[float, ...]


def _draw(drawing: _Drawing) -> tuple[Any, list[int]]:
    """Return the figure, and the indices of the occurrences in the order of drawing."""
    from matplotlib import colormaps

    figure, axes = new_figure(9, 6.5)
    axes.set_title(printable(drawing.title))
    for number, share in enumerate(drawing.variance, start=1):
        label = f"principal component {number}: {share:.0%} of the variance"
        (axes.set_xlabel if number == 1 else axes.set_ylabel)(label)
    if not drawing.variance:  # Lengths and directions of t-SNE have no meaning.
        axes.set(xticks=[], yticks=[])
    names = drawing.names
    colours = colormaps["tab10" if len(names) <= 10 else "turbo"].resampled(max(10, len(names)))
    order: list[int] = []
    for number, name in enumerate(names):
        members = [index for index, group in enumerate(drawing.groups) if group == name]
        label, order = f"{printable(name)} ({len(members):,})", order + members
        style: dict[str, Any] = {"color": colours(number), "alpha": 0.75, "markeredgewidth": 0}
        axes.plot(*drawing.points[members].T, "o", gid=f"{POINTS}{number}", label=label, **style)
    if len(names) > 1:
        axes.legend()
    figure.canvas.draw()  # Labels have to fit into the final layout.
    _label(axes, figure.canvas.get_renderer(), drawing)
    return figure, order


def _label(axes: Any, renderer: Any, drawing: _Drawing) -> None:
    """Label points that have space for a label, the outermost points first."""
    pixels = axes.transData.transform(drawing.points)
    legend = axes.get_legend()
    boxes = [] if legend is None else [legend.get_window_extent(renderer)]
    frame, n_before = axes.get_window_extent(renderer), len(boxes)
    distances = np.linalg.norm(drawing.points - drawing.points.mean(axis=0), axis=1)
    for index in np.argsort(-distances, kind="stable"):
        context = _context(drawing.occurrences[index])
        if len(boxes) - n_before == MAX_LABELS:
            return
        for offset, side in ((5, "left"), (-5, "right")) if context else ():
            text = axes.annotate(
                context,
                drawing.points[index],
                xytext=(offset, 0),
                textcoords="offset points",
                ha=side,
                va="center_baseline",
                fontsize=6.5,
            )
            text.set_in_layout(False)
            box = text.get_window_extent(renderer).padded(3)
            fits = frame.x0 < box.x0 and box.x1 < frame.x1 and frame.y0 < box.y0 < frame.y1
            is_free = not ((pixels > box.min) & (pixels < box.max)).all(axis=1).any()
            if fits and is_free and not any(box.overlaps(other) for other in boxes):
                boxes.append(box)
                break
            text.remove()


def _context(embedded: EmbeddedOccurrence) -> str:
    """Return the word with the tokens around it, or "" if its sentence is unknown."""
    tokens, index = embedded.occurrence.sentence, embedded.occurrence.index
    start, stop = max(0, index - _LABEL_TOKENS), index + _LABEL_TOKENS + 1
    return printable(" ".join(tokens[start:stop])) if len(tokens) > 1 else ""


MAX_WORDS: Final = 100
"""Maximum number of words in a picture. The words with the largest changes are drawn."""
_LEVEL: Final = 0.05
_INCHES_PER_CHANGE: Final = 0.2
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
        figure, order = _draw_changes(drawn, title, _AXIS_LABELS[measure])
        save_figure(output, figure, title, [_change_tooltip(drawn[index]) for index in order])
    return len(drawn)


def _draw_changes(changes: Sequence[Change], title: str, axis_label: str) -> tuple[Any, list[int]]:
    """Return the figure, and the indices of the changes in the order of drawing."""
    figure, axes = new_figure(7, 1.2 + _INCHES_PER_CHANGE * len(changes))
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


def _change_tooltip(change: Change) -> str:
    """Return the figures of a word."""
    text = f"{change.word}: {change.change:.4f}, {change.n_old:,} old and {change.n_new:,} new"
    if change.p is not None:
        text += f", p {change.p:.4f}"
    if change.adjusted_p is not None:
        text += f", adjusted p {change.adjusted_p:.4f}"
    return text


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
        figure, tooltips = _draw_surprisal(drawn, directions)
        save_figure(output, figure, title, tooltips)
    return len(drawn)


def _draw_surprisal(
    sentences: Sequence[Measured], directions: Sequence[str]
) -> tuple[Any, list[str]]:
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
    axes.set_xticks(range(len(units)), [_bar_label(unit) for unit in units])
    axes.set_ylabel("bits")
    axes.set_title(printable(_title(sentence)), loc="left", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return tooltips


def _title(sentence: Measured) -> str:
    name = str(sentence.names[-1])
    return name if sentence.record.id is not None else f"sentence {name}"


def _bar_label(unit: UnitSurprisal) -> str:
    """Return the text below a bar."""
    text = unit.text if len(unit.text) <= _MAX_LABEL else f"{unit.text[: _MAX_LABEL - 1]}…"
    return printable(text)
