"""The uses of a word as a picture: a point each, like ones close together (extra `plot`)."""

import html
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.uses import Use, find_uses, record_name
from elmo_cli.atomic import check_output, replaced
from elmo_cli.errors import InputError, OutputError, check_choice, counted, load_extra
from elmo_cli.outputs.reader import Activations

SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")
METHODS: Final = ("pca", "tsne")
MIN_USES: Final = {"pca": 3, "tsne": 30}
"""Below these, a picture shows its method and not the word."""
MAX_POINTS: Final = 2000
MAX_LABELS: Final = 40
_LABEL_TOKENS: Final = 3
"""Tokens of a label on either side of the word."""
_SEED: Final = 0
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
    "svg.hashsalt": "elmo",  # equal pictures, equal files
    "text.parse_math": False,
}


class Picture(NamedTuple):
    """What was drawn."""

    n_uses: int
    """Uses of the word."""
    n_drawn: int
    """Those of them that are points."""
    variance: tuple[float, ...]
    """The share of the variance on each axis; none for t-SNE, whose axes mean nothing."""


def plot_uses(
    activations: Activations,
    word: str,
    output: str | Path,
    *,
    method: str = "pca",
    clusters: int | None = None,
    layers: str | None = None,
    overwrite: bool = False,
) -> Picture:
    """Draw the uses of a word as points, with the sentences of some as labels.

    The same uses always give the same file.

    Args:
        activations: one file, or several, which then have a colour each.
        word: as it is written.
        output: .svg, .png, .pdf or .html, a page that needs nothing else. In SVG and HTML every
            point shows its sentence when it is pointed at.
        method: `pca`, whose axes are those of the largest variance, or `tsne`.
        clusters: colour by so many clusters of k-means in place of files.
        layers: of the files, by numbers with commas between, whose mean is taken; if not given,
            all but the token layer.
        overwrite: replace a file that is there.

    Raises:
        InputError: the word has too few uses, or the file has no vectors of its tokens.
        OutputError: `output` has another suffix, exists already or cannot be written.
        ElmoError: a package is not installed.
    """
    output = Path(output)
    if output.suffix.lower() not in SUFFIXES:
        raise OutputError(f"{output}: expected a name that ends in {', '.join(SUFFIXES)}")
    check_output(output, overwrite=overwrite)
    check_choice("method", method, METHODS)
    for package in ("matplotlib", "sklearn"):
        load_extra("plot", package, "plot")
    uses = find_uses(activations, {word: word}, layers)[word]
    n_uses = len(uses)
    _check_number(activations, word, n_uses, method, clusters)
    if n_uses > MAX_POINTS:
        chosen = np.random.default_rng(_SEED).choice(n_uses, MAX_POINTS, replace=False)
        uses = [uses[place] for place in sorted(chosen)]
    vectors = np.stack([use.vector for use in uses]).astype(np.float32)  # (n, W)
    if (vectors == vectors[0]).all():
        raise InputError(f"{word!r}: the vectors of all uses are the same, as those of layer 0 are")
    points, variance = _project(vectors, method)
    if clusters is None:
        groups = [str(activations.source(use.record)[0]) for use in uses]
    else:
        groups = _cluster(vectors, clusters)
    title = f"{word}: {counted(n_uses, 'use')}"
    if len(uses) < n_uses:
        title += f", {len(uses):,} of them drawn"
    names = (record_name(activations, use.record) for use in uses)
    sentences = [f"{name}: {use.occurrence.marked}" for name, use in zip(names, uses, strict=True)]
    drawing = _Drawing(title, points, groups, uses, sentences, variance)
    with replaced(output) as partial, open(partial, "xb") as file:
        _write(file, drawing, output.suffix.lower())
    return Picture(n_uses, len(uses), variance)


def _check_number(
    activations: Activations, word: str, n_uses: int, method: str, clusters: int | None
) -> None:
    """Make sure that there are enough uses for a picture."""
    n_least = max(MIN_USES[method], clusters or 0)
    if n_uses < n_least:
        found, where = counted(n_uses, "use") if n_uses else "none", str(activations.paths[0])
        where += " and the others" if len(activations.paths) > 1 else ""
        advice = "; --method pca takes 3" if method == "tsne" and n_uses >= MIN_USES["pca"] else ""
        raise InputError(
            f"{word!r}: expected {n_least} uses or more to draw, found {found} in {where}{advice}"
        )


def _project(
    vectors: NDArray[np.float32], method: str
) -> tuple[NDArray[np.floating], tuple[float, ...]]:
    """Points in the plane, shape (n, 2), and the shares of the variance on their axes."""
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
        return pca.transform(vectors), tuple(map(float, pca.explained_variance_ratio_))
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", metric="cosine", random_state=_SEED)
    return tsne.fit_transform(vectors), ()


def _cluster(vectors: NDArray[np.float32], n_clusters: int) -> list[str]:
    """The cluster of each vector by k-means, the largest first."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=10, random_state=_SEED).fit_predict(vectors)
    order = np.argsort(-np.bincount(labels, minlength=n_clusters), kind="stable")
    ranks = np.argsort(order)
    return [f"cluster {ranks[label] + 1}" for label in labels]


def _printable(text: str) -> str:
    """A text without characters that XML cannot hold."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


class _Drawing(NamedTuple):
    """What a picture shows."""

    title: str
    points: NDArray[np.floating]
    groups: Sequence[str]
    """The group of each point, which gives its colour."""
    uses: Sequence[Use]
    sentences: Sequence[str]
    """What each point shows when it is pointed at."""
    variance: tuple[float, ...]


def _write(file: IO[bytes], drawing: _Drawing, suffix: str) -> None:
    """Write a picture in the format of a suffix."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # that the font has not
        figure, order = _draw(drawing)
        if suffix == ".png":
            figure.savefig(file, format="png", dpi=150)
        elif suffix == ".pdf":
            figure.savefig(file, format="pdf", metadata={"CreationDate": None})
        else:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            svg = _with_titles(drawn.getvalue(), [drawing.sentences[place] for place in order])
            if suffix == ".html":
                inline = svg[svg.index(b"<svg") :].decode()
                title = html.escape(_printable(drawing.title))
                svg = _PAGE.format(title=title, svg=inline).encode()
            file.write(svg)


def _draw(drawing: _Drawing) -> tuple[Any, list[int]]:
    """The figure, and the places of the uses in the order in which their points are drawn."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(_printable(drawing.title))
    for number, share in enumerate(drawing.variance, start=1):
        label = f"principal component {number}: {share:.0%} of the variance"
        (axes.set_xlabel if number == 1 else axes.set_ylabel)(label)
    if not drawing.variance:  # lengths and directions of t-SNE mean nothing
        axes.set(xticks=[], yticks=[])
    names = sorted(set(drawing.groups))
    colours = colormaps["tab10" if len(names) <= 10 else "turbo"].resampled(max(10, len(names)))
    order: list[int] = []
    for number, name in enumerate(names):
        places = [place for place, group in enumerate(drawing.groups) if group == name]
        label, order = f"{_printable(name)} ({len(places):,})", order + places
        style: dict[str, Any] = {"color": colours(number), "alpha": 0.75, "markeredgewidth": 0}
        axes.plot(*drawing.points[places].T, "o", gid=f"uses-{number}", label=label, **style)
    if len(names) > 1:
        axes.legend()
    canvas.draw()  # which fixes the layout that labels have to fit
    _label(axes, canvas.get_renderer(), drawing)
    return figure, order


def _label(axes: Any, renderer: Any, drawing: _Drawing) -> None:
    """Label some points, the outer ones first, where no other point or label is."""
    pixels = axes.transData.transform(drawing.points)
    legend = axes.get_legend()
    taken = [] if legend is None else [legend.get_window_extent(renderer)]
    frame, n_before = axes.get_window_extent(renderer), len(taken)
    distances = np.linalg.norm(drawing.points - drawing.points.mean(axis=0), axis=1)
    for place in np.argsort(-distances, kind="stable"):
        if len(taken) - n_before == MAX_LABELS:
            return
        for offset, side in ((5, "left"), (-5, "right")):
            text = axes.annotate(
                _context(drawing.uses[place]),
                drawing.points[place],
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
            if fits and is_free and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def _context(use: Use) -> str:
    """The word with the tokens around it."""
    tokens, index = use.occurrence.sentence, use.occurrence.index
    start, stop = max(0, index - _LABEL_TOKENS), index + _LABEL_TOKENS + 1
    return _printable(" ".join(tokens[start:stop]))


def _with_titles(svg: bytes, sentences: Sequence[str]) -> bytes:
    """A picture whose points show a sentence each when they are pointed at."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    points = [
        point
        for group in root.iter(f"{{{_SVG}}}g")
        if group.get("id", "").startswith("uses-")
        for point in group.iter(f"{{{_SVG}}}use")
    ]
    for point, sentence in zip(points, sentences, strict=True):
        ElementTree.SubElement(point, f"{{{_SVG}}}title").text = _printable(sentence)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text
