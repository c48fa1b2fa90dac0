"""Picture of the occurrences of a word. Points that are near each other have similar vectors."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.figures import (
    POINTS,
    check_figure,
    figure_style,
    new_figure,
    printable,
    save_figure,
)
from elmo_cli.analysis.occurrences import (
    EmbeddedOccurrence,
    VectorFiles,
    find_word,
    sources_of,
)
from elmo_cli.analysis.sources import paths_of
from elmo_cli.errors import InputError, check_choice, counted, load_extra
from elmo_cli.outputs.reader import Activations

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
