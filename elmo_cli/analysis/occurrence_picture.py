"""Picture of the occurrences of a word. Points that are near each other have similar vectors."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from elmo_cli.analysis.drawing import Drawing, check_figure, open_drawing, printable
from elmo_cli.analysis.occurrences import EmbeddedOccurrence
from elmo_cli.analysis.vector_files import VectorFiles, as_files
from elmo_cli.analysis.vector_sources import Array
from elmo_cli.analysis.word_search import find_word
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_choice, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.reader import Activations

METHODS: Final = ("pca", "tsne")


MIN_VECTORS: Final = {"pca": 3, "tsne": 30}
"""Minimum number of occurrences. A picture of fewer shows the method and not the word."""


MAX_POINTS: Final = 2000


MAX_LABELS: Final = 40


_LABEL_TOKENS: Final = 3  # on either side of the word


_SEED: Final = 0


class Picture(NamedTuple):
    """Result of a drawing."""

    n_occurrences: int
    n_drawn: int
    variance: tuple[float, ...]
    """Share of the variance on each axis. Empty for t-SNE, whose axes have no meaning."""


def plot_occurrences(
    files: VectorFiles | Activations,
    word: str,
    output: str | Path,
    *,
    method: str = "pca",
    clusters: int | None = None,
    layers: Layers | None = None,
    overwrite: bool = False,
    on_step: Callable[[str], object] | None = None,
) -> Picture:
    """Draw the occurrences of a word as points, with the sentences of some as labels.

    Args:
        files: Files of `open_occurrences` or `open_activations`. Each has a colour.
        word: Target word of the files, with all its forms, or any other word as it is written.
        output: Path in .svg, .png, .pdf, or .html, a page that needs no other file. In SVG and
            HTML the tooltip of each point is its sentence.
        method: `pca`, whose axes have the largest variance, or `tsne`.
        clusters: Number of clusters of k-means. With it, clusters have colours instead of files.
        layers: As in `neighbours`.
        overwrite: Replace an existing file.
        on_step: Called with the name of each step when it begins.

    Returns:
        The number of occurrences, how many were drawn, and what the axes show.

    Raises:
        InputError: The word has too few occurrences, or a file has no vectors of its tokens.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: A package is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("method", method, METHODS)
    load_extra("plot", "sklearn", "plot")
    check_type("word", word, str, "a string")
    files = as_files(files)
    on_step = on_step or ignore
    on_step("reading")
    found = find_word(files, word, layers)
    paths = list(map(str, files.paths))
    _check_number(paths, word, len(found), method, clusters)
    occurrences = found
    if len(found) > MAX_POINTS:
        chosen = np.random.default_rng(_SEED).choice(
            len(found), MAX_POINTS, replace=False
        )
        occurrences = [found[index] for index in sorted(chosen)]
    vectors = _stack(occurrences, word)
    on_step("projecting")
    points, variance = _project(vectors, method)
    groups = [str(each.location.path) for each in occurrences]
    tooltips = [f"{each.location.name}: {each.marked}" for each in occurrences]
    if len(paths) > 1:
        tooltips = [
            f"{path}:{text}" for path, text in zip(groups, tooltips, strict=True)
        ]
    names = [path for path in dict.fromkeys(paths) if path in groups]
    if clusters is not None:
        groups = _cluster(vectors, clusters)
        names = [f"cluster {number}" for number in range(1, clusters + 1)]
    title = f"{word}: {counted(len(found), 'occurrence')}"
    if len(occurrences) < len(found):
        title += f", {len(occurrences):,} of them drawn"
    on_step("drawing")
    with open_drawing(output, title, 7, 5.2) as drawing:
        axes = drawing.figure.add_subplot()
        axes.set_title(printable(title))
        _name_axes(axes, variance)
        members = {
            name: [i for i, each in enumerate(groups) if each == name] for name in names
        }
        _add_groups(drawing, axes, members, points, tooltips)
        drawing.figure.canvas.draw()  # Labels have to fit into the final layout.
        _label(axes, points, occurrences)
    return Picture(len(found), len(occurrences), variance)


def _check_number(
    paths: Sequence[str],
    word: str,
    n_occurrences: int,
    method: str,
    clusters: int | None,
) -> None:
    minimum = max(MIN_VECTORS[method], clusters or 0)
    if n_occurrences < minimum:
        number = counted(n_occurrences, "occurrence")
        files = f"{paths[0]} and the other files" if len(paths) > 1 else paths[0]
        is_enough = method == "tsne" and n_occurrences >= MIN_VECTORS["pca"]
        advice = ". --method pca needs 3." if is_enough else ""
        raise InputError(
            f"{word!r}: {number} in {files}, but a picture needs {minimum}{advice}"
        )


def _stack(occurrences: list[EmbeddedOccurrence], word: str) -> Array:
    """Return the vectors of occurrences, shape (n, W)."""
    expected = len(occurrences[0].vector)
    for each in occurrences:
        if len(each.vector) != expected:
            example, found = (
                f"as in {occurrences[0].location.path}",
                f"found {len(each.vector):,}",
            )
            problem = f"expected vectors of width {expected:,}, {example}, {found}"
            raise InputError(f"{each.location.path}: {problem}")
    vectors = np.stack([each.vector for each in occurrences]).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InputError(f"{word!r}: some vectors are not finite (NaN or infinity)")
    if (vectors == vectors[0]).all():
        raise InputError(
            f"{word!r}: all occurrences have the same vector, as in layer 0"
        )
    return vectors


def _project(vectors: Array, method: str) -> tuple[Array, tuple[float, ...]]:
    """Return points in the plane, shape (n, 2), and the shares of the variance on their axes."""
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
        return pca.transform(vectors), tuple(map(float, pca.explained_variance_ratio_))
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", metric="cosine", random_state=_SEED)
    return tsne.fit_transform(vectors), ()


def _cluster(vectors: Array, n_clusters: int) -> list[str]:
    """Return the cluster of each vector, by k-means. The largest cluster is `cluster 1`."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=10, random_state=_SEED).fit_predict(vectors)
    order = np.argsort(-np.bincount(labels, minlength=n_clusters), kind="stable")
    ranks = np.argsort(order)
    return [f"cluster {ranks[label] + 1}" for label in labels]


def _name_axes(axes: Any, variance: tuple[float, ...]) -> None:
    for number, share in enumerate(variance, start=1):
        label = f"principal component {number}: {share:.0%} of the variance"
        (axes.set_xlabel if number == 1 else axes.set_ylabel)(label)
    if not variance:  # Lengths and directions of t-SNE have no meaning.
        axes.set(xticks=[], yticks=[])


def _add_groups(
    drawing: Drawing,
    axes: Any,
    groups: dict[str, list[int]],
    points: Array,
    tooltips: list[str],
) -> None:
    """Draw the points of each group in a colour. `groups` has the indices of their points."""
    from matplotlib import colormaps

    n_groups = len(groups)
    colours = colormaps["tab10" if n_groups <= 10 else "turbo"].resampled(
        max(10, n_groups)
    )
    for number, (name, members) in enumerate(groups.items()):
        texts = [tooltips[index] for index in members]
        style = {"color": colours(number), "alpha": 0.75, "markeredgewidth": 0}
        style["label"] = f"{printable(name)} ({len(members):,})"
        drawing.add_points(axes, number, points[members], texts, **style)
    if n_groups > 1:
        axes.legend()


def _label(axes: Any, points: Array, occurrences: Sequence[EmbeddedOccurrence]) -> None:
    """Label points that have space for a label, the outermost points first."""
    renderer = axes.figure.canvas.get_renderer()
    pixels = axes.transData.transform(points)
    legend = axes.get_legend()
    boxes = [] if legend is None else [legend.get_window_extent(renderer)]
    frame, n_before = axes.get_window_extent(renderer), len(boxes)
    distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
    style: Any = {
        "textcoords": "offset points",
        "va": "center_baseline",
        "fontsize": 7.5,
    }
    for index in np.argsort(-distances, kind="stable"):
        tokens, place = occurrences[index].sentence, occurrences[index].index
        if len(boxes) - n_before == MAX_LABELS:
            return
        context = tokens[max(0, place - _LABEL_TOKENS) : place + _LABEL_TOKENS + 1]
        label = printable(" ".join(context))
        # A single token is of a program that stores no sentences.
        for offset, side in ((5, "left"), (-5, "right")) if len(tokens) > 1 else ():
            text = axes.annotate(
                label, points[index], xytext=(offset, 0), ha=side, **style
            )
            text.set_in_layout(False)
            box = text.get_window_extent(renderer).padded(6)
            fits = (
                frame.x0 < box.x0 and box.x1 < frame.x1 and frame.y0 < box.y0 < frame.y1
            )
            is_free = not ((pixels > box.min) & (pixels < box.max)).all(axis=1).any()
            if fits and is_free and not any(box.overlaps(other) for other in boxes):
                boxes.append(box)
                break
            text.remove()
