"""Picture of the occurrences of a word, as points in the plane.

Points that are near each other have similar vectors.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from elmo_cli.analysis.drawing import Drawing, check_figure, open_drawing, printable
from elmo_cli.analysis.marked_labels import (
    SIDES,
    MarkedText,
    draw_label,
    mark_token,
    name_label,
    shorten,
)
from elmo_cli.analysis.vector_files import VectorFiles, opened_files
from elmo_cli.analysis.vector_sources import Array
from elmo_cli.analysis.word_search import EmbeddedOccurrence, find_word
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_choice, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import PROJECTIONS, Projection
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.reader import Activations

MIN_VECTORS: Final = {"pca": 3, "tsne": 30}
"""Minimum number of occurrences. Fewer would show the method and not the word."""
MAX_POINTS: Final = 2000
MAX_LABELS: Final = 40
_LABEL_CHARACTERS: Final = 18
"""Maximum number of characters in a label on either side of the word."""
_SEED: Final = 0


class Picture(NamedTuple):
    """Result of a drawing."""

    n_occurrences: int
    n_drawn: int
    variance: tuple[float, ...]
    """Share of the variance on each axis; empty for t-SNE, which has no such axes."""


def plot_occurrences(
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
    word: str,
    output: str | Path,
    *,
    method: Projection = "pca",
    clusters: int | None = None,
    layers: Layers | None = None,
    overwrite: bool = False,
    on_step: Callable[[str], object] | None = None,
) -> Picture:
    """Draw the occurrences of a word as points, with the sentences of some as labels.

    Args:
        files: Path or list of paths, or the result of `open_occurrences` or
            `open_activations`. Each file has a colour.
        word: Target word of the files, with all its forms, or any other word as it is
            written.
        output: Path in .svg, .png, .pdf, or .html, a page that needs no other file. In
            SVG and HTML the tooltip of each point is its sentence.
        method: "pca", whose axes have the largest variance, or "tsne".
        clusters: Number of clusters of k-means. With it, clusters have colours instead
            of files.
        layers: Layers to average, such as "1,2", 2, -1 or
            [0, 2]. None means all layers in the files except the token layer.
        overwrite: Replace an existing file.
        on_step: Called with the name of each step when it begins.

    Returns:
        The number of occurrences, how many were drawn, and what the axes show.

    Raises:
        InputError: The word has too few occurrences, or a file has no vectors of its
            tokens.
        SettingsError: The method is unknown, or a file lacks one of the layers.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: A package is not installed.
    """
    check_figure(output, overwrite=overwrite)
    check_choice("method", method, PROJECTIONS)
    load_extra("plot", "sklearn", "plot")
    check_type("word", word, str, "a string")
    begin_step = on_step or ignore
    begin_step("reading")
    with opened_files(files) as opened:
        found = find_word(opened, word, layers)
        paths = [str(path) for path in opened.paths]
    _check_occurrence_count(
        paths, word, n_occurrences=len(found), method=method, clusters=clusters
    )
    drawn = _sample(found)
    vectors = _stack_vectors(drawn, word)
    begin_step("projecting")
    points, variance = _project(vectors, method)
    if clusters is None:
        groups = [str(occurrence.location.path) for occurrence in drawn]
        names = [path for path in dict.fromkeys(paths) if path in groups]
    else:
        groups = _cluster(vectors, clusters)
        names = [f"cluster {number}" for number in range(1, clusters + 1)]
    title = f"{word}: {counted(len(found), 'occurrence')}"
    if len(drawn) < len(found):
        title += f", {len(drawn):,} of them drawn"
    begin_step("drawing")
    caption = _caption(variance)
    with open_drawing(output, title, caption, width=5.6, height=4.6) as drawing:
        axes = drawing.figure.add_subplot()
        axes.set_title(printable(title))
        _name_axes(axes, variance)
        members = {
            name: [index for index, group in enumerate(groups) if group == name]
            for name in names
        }
        tooltips = [
            _occurrence_tooltip(occurrence, with_path=len(paths) > 1)
            for occurrence in drawn
        ]
        _add_groups(drawing, axes, groups=members, points=points, tooltips=tooltips)
        drawing.figure.canvas.draw()  # Labels have to fit into the final layout.
        _label_points(axes, points, drawn)
    return Picture(len(found), len(drawn), variance)


def _check_occurrence_count(
    paths: Sequence[str],
    word: str,
    n_occurrences: int,
    method: str,
    clusters: int | None,
) -> None:
    """Raise an `InputError` for too few occurrences."""
    minimum = max(MIN_VECTORS[method], clusters or 0)
    if n_occurrences >= minimum:
        return
    remedy = None
    if method == "tsne" and n_occurrences >= MIN_VECTORS["pca"]:
        remedy = "{--method pca} needs 3."
    raise InputError(
        Message(
            "{word}: {number} in {files}, but a picture needs {minimum}",
            remedy=remedy,
            word=repr(word),
            number=counted(n_occurrences, "occurrence"),
            files=paths[0] if len(paths) == 1 else f"{paths[0]} and the other files",
            minimum=minimum,
        )
    )


def _sample(occurrences: list[EmbeddedOccurrence]) -> list[EmbeddedOccurrence]:
    """Return at most `MAX_POINTS` of some occurrences, in their order."""
    n = len(occurrences)
    if n <= MAX_POINTS:
        return occurrences
    random = np.random.default_rng(_SEED)
    chosen = random.choice(n, MAX_POINTS, replace=False)
    return [occurrences[index] for index in sorted(chosen)]


def _stack_vectors(occurrences: list[EmbeddedOccurrence], word: str) -> Array:
    """Return the vectors of occurrences, shape (n, W)."""
    first = occurrences[0]
    width = len(first.vector)
    for occurrence in occurrences:
        own_width = len(occurrence.vector)
        if own_width != width:
            raise InputError(
                f"{occurrence.location.path}: expected vectors of width {width:,}, as "
                f"in {first.location.path}, found {own_width:,}"
            )
    vectors = np.stack([each.vector for each in occurrences]).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InputError(f"{word!r}: some vectors are not finite (NaN or infinity)")
    if (vectors == vectors[0]).all():
        raise InputError(
            f"{word!r}: all occurrences have the same vector, as in layer 0"
        )
    return vectors


def _project(vectors: Array, method: str) -> tuple[Array, tuple[float, ...]]:
    """Project vectors to the plane.

    Returns:
        Points, shape (n, 2), and the shares of the variance on their axes.
    """
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
        shares = tuple(float(share) for share in pca.explained_variance_ratio_)
        return pca.transform(vectors), shares
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", metric="cosine", random_state=_SEED)
    return tsne.fit_transform(vectors), ()


def _cluster(vectors: Array, n_clusters: int) -> list[str]:
    """Return the cluster of each vector, by k-means. The largest is `cluster 1`."""
    from sklearn.cluster import KMeans

    kmeans = KMeans(n_clusters, n_init=10, random_state=_SEED)
    labels = kmeans.fit_predict(vectors)
    sizes = np.bincount(labels, minlength=n_clusters)
    ranks = np.argsort(np.argsort(-sizes, kind="stable"))
    return [f"cluster {ranks[label] + 1}" for label in labels]


def _occurrence_tooltip(occurrence: EmbeddedOccurrence, *, with_path: bool) -> str:
    before, word, after = mark_token(occurrence.sentence, occurrence.index)
    text = f"{occurrence.location.name}: {before}[{word}]{after}"
    return f"{occurrence.location.path}:{text}" if with_path else text


def _name_axes(axes: Any, variance: tuple[float, ...]) -> None:
    axes.set(xticks=[], yticks=[])  # The numbers have no meaning for a reader.
    if not variance:
        axes.set_xlabel("t-SNE: only neighbours mean something, not axes or distances")
        return
    x_label, y_label = (
        f"principal component {number}: {share:.0%} of the variance"
        for number, share in enumerate(variance, start=1)
    )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def _caption(variance: tuple[float, ...]) -> str:
    text = "Each point is one occurrence, and similar occurrences are close together. "
    if not variance:
        return text + (
            "The axes have no meaning. t-SNE keeps neighbours together, but the "
            "distances between groups and the sizes of groups mean nothing."
        )
    first, second = (f"{share:.0%}" for share in variance)
    return text + (
        "The axes are the two directions in which the vectors differ most, their "
        f"principal components. They show {first} and {second} of the variance."
    )


def _add_groups(
    drawing: Drawing,
    axes: Any,
    groups: dict[str, list[int]],
    points: Array,
    tooltips: list[str],
) -> None:
    """Draw the points of each group in a colour. `groups` has their indices."""
    from matplotlib import colormaps

    n_groups = len(groups)
    colour_map = colormaps["tab10" if n_groups <= 10 else "turbo"]
    colours = colour_map.resampled(max(10, n_groups))
    for number, (name, members) in enumerate(groups.items()):
        drawing.add_points(
            axes,
            number,
            points[members],
            [tooltips[index] for index in members],
            color=colours(number),
            alpha=0.75,
            markeredgewidth=0,
            label=f"{printable(name)} ({len(members):,})",
        )
    if n_groups > 1:
        axes.legend()


def _label_points(
    axes: Any, points: Array, occurrences: Sequence[EmbeddedOccurrence]
) -> None:
    """Label points that have space for a label, the outermost points first."""
    from matplotlib.transforms import Bbox

    renderer = axes.figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    pixels = axes.transData.transform(points)
    legend = axes.get_legend()
    taken = [] if legend is None else [legend.get_window_extent(renderer)]

    def has_space(box: Any) -> bool:
        if box.x0 <= frame.x0 or box.x1 >= frame.x1:
            return False
        if box.y0 <= frame.y0 or box.y0 >= frame.y1:
            return False
        covers = ((pixels > box.min) & (pixels < box.max)).all(axis=1)
        return not covers.any() and not any(box.overlaps(other) for other in taken)

    n_labels = 0
    distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
    for index in np.argsort(-distances, kind="stable"):
        if n_labels == MAX_LABELS:
            return
        occurrence = occurrences[index]
        if len(occurrence.sentence) == 1:  # The label would only be the word.
            continue
        label = _occurrence_label(occurrence)
        for side in SIDES:
            texts = draw_label(axes, points[index], label, side)
            extents = [text.get_window_extent(renderer) for text in texts]
            box = Bbox.union(extents).padded(6)
            if has_space(box):
                taken.append(box)
                name_label(texts, n_labels)
                n_labels += 1
                break
            for text in texts:
                text.remove()


def _occurrence_label(occurrence: EmbeddedOccurrence) -> MarkedText:
    """Return the word with a few words around it."""
    sentence = [printable(token) for token in occurrence.sentence]
    return shorten(mark_token(sentence, occurrence.index), _LABEL_CHARACTERS)
