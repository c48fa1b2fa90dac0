"""Picture of the occurrences of a word, as points in the plane.

Points that are near each other have similar vectors.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from elmo_cli.analysis.pictures.drawing import (
    WIDTH,
    Drawing,
    check_figure,
    open_drawing,
    printable,
)
from elmo_cli.analysis.pictures.marked_labels import (
    SIDES,
    MarkedText,
    Side,
    draw_label,
    mark_token,
    name_label,
    shorten,
)
from elmo_cli.analysis.search.vector_files import (
    VectorFiles,
    check_files_come_first,
    opened_files,
)
from elmo_cli.analysis.search.word_search import EmbeddedOccurrence, find_word
from elmo_cli.arrays import AnyArray
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import (
    check_at_least,
    check_choice,
    check_function,
    check_type,
)
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.options.analysis import PROJECTIONS, Projection
from elmo_cli.options.layers import Layers
from elmo_cli.outputs.reader import Activations

MIN_VECTORS: Final = {"pca": 3, "tsne": 30}
"""Minimum number of occurrences. Fewer would show the method and not the word."""
MAX_POINTS: Final = 2000
MAX_LABELS: Final = 40
_MAX_FORMS: Final = 4
"""Maximum number of forms of the word in the title, beside the word itself."""
_LABEL_CHARACTERS: Final = 14
"""Maximum number of characters in a label on either side of the word."""
_MARKERS: Final = ("o", "^", "s", "D", "v", "P", "X", "*")
"""Shapes of the groups, which differ without colours too."""
_ROUNDS: Final = 10
_N_CENTRES: Final = 12
"""Maximum number of dense places with a label."""
_DISTANCES: Final = (16.0, 28.0, 42.0, 60.0, 82.0, 110.0, 150.0)
"""Distances of a label from its point, in points (1/72 inch)."""
_DIRECTIONS: Final = (
    (0.87, 0.5),
    (-0.87, 0.5),
    (0.87, -0.5),
    (-0.87, -0.5),
    (0.5, 0.87),
    (-0.5, 0.87),
    (0.5, -0.87),
    (-0.5, -0.87),
    (1.0, 0.0),
    (-1.0, 0.0),
)
"""Directions in which a label may stand: to the right and upwards, of length 1."""
_SHIFTS: Final = (
    (0.0, 0.0),
    *((distance * x, distance * y) for distance in _DISTANCES for x, y in _DIRECTIONS),
)
"""Places of a label beside its point, in points, the nearest first."""
_POINT_RADIUS: Final = 3.0
"""Half the size of a point, in points (1/72 inch)."""
_LINE_DISTANCE: Final = 8.0
"""Minimum distance between the lines of two labels, in points."""
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

        plot_occurrences("corpus.hdf5", "bank", "bank.svg")

    Args:
        files: Path or list of paths, or the result of `open_occurrences` or
            `open_activations`. Each file has a colour and a shape.
        word: Target word of the files, with all its forms, or any other word as it is
            written.
        output: Path in .svg, .png, .pdf, or .html, a page that needs no other file. In
            SVG and HTML the tooltip of each point is its sentence.
        method: "pca", whose axes have the largest variance, or "tsne".
        clusters: Number of clusters of k-means, at least 2. With it, clusters have
            colours and shapes instead of files.
        layers: Layers to average, such as "1,2", 2, -1 or
            [0, 2]. None means all layers in the files except the token layer.
        overwrite: Replace an existing file.
        on_step: Called with the name of each step when it begins.

    Returns:
        The number of occurrences, how many were drawn, and what the axes show.

    Raises:
        InputError: The word has too few occurrences, or a file has no vectors of its
            tokens.
        SettingsError: The method is unknown, `clusters` is below 2, or a file lacks
            one of the layers.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: A package is not installed.
    """
    check_files_come_first(files, word, "the word")
    check_type("word", word, str, "a string")
    check_choice("method", method, PROJECTIONS)
    if clusters is not None:
        check_at_least("clusters", clusters, 2)
    check_function("on_step", on_step)
    check_figure(output, overwrite=overwrite)
    load_extra("plot", "sklearn", "plot")
    begin_step = on_step or ignore
    begin_step("reading")
    with opened_files(files) as opened:
        check_not_read(output, opened.paths)
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
    title = f"{_name_with_forms(word, found)}: {counted(len(found), 'occurrence')}"
    if len(drawn) < len(found):
        title += f", {len(drawn):,} of them drawn"
    begin_step("drawing")
    caption = _caption(variance)
    with open_drawing(
        output,
        title=title,
        caption=caption,
        width=WIDTH,
        height=WIDTH,
        overwrite=overwrite,
    ) as drawing:
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
    return Picture(n_occurrences=len(found), n_drawn=len(drawn), variance=variance)


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
    needed_by = "t-SNE" if method == "tsne" else "a picture"
    remedy = "Choose a more frequent word, or a larger corpus."
    if clusters is not None and n_occurrences >= max(MIN_VECTORS[method], 2):
        remedy = f"Use {{--clusters {n_occurrences}}} or less."
    elif method == "tsne" and n_occurrences >= MIN_VECTORS["pca"]:
        remedy = "{--method pca} needs 3."
    raise InputError(
        "{word} has {number} in {files}, but {needed_by} needs {minimum}",
        remedy=remedy,
        word=repr(word),
        number=counted(n_occurrences, "occurrence"),
        files=paths[0] if len(paths) == 1 else f"{paths[0]} and the other files",
        needed_by=needed_by,
        minimum=minimum,
    )


def _name_with_forms(word: str, occurrences: Sequence[EmbeddedOccurrence]) -> str:
    """Return a word with its other forms: `say (said, says)`.

    The most frequent forms come first. Case makes no other form.
    """
    counts = Counter(occurrence.token.lower() for occurrence in occurrences)
    del counts[word.lower()]
    forms = [form for form, _ in counts.most_common(_MAX_FORMS)]
    if not forms:
        return word
    if len(counts) > _MAX_FORMS:
        forms.append("…")
    return f"{word} ({', '.join(forms)})"


def _sample(occurrences: list[EmbeddedOccurrence]) -> list[EmbeddedOccurrence]:
    """Return at most `MAX_POINTS` of some occurrences, in their order."""
    n = len(occurrences)
    if n <= MAX_POINTS:
        return occurrences
    random = np.random.default_rng(_SEED)
    chosen = random.choice(n, MAX_POINTS, replace=False)
    return [occurrences[index] for index in sorted(chosen)]


def _stack_vectors(occurrences: list[EmbeddedOccurrence], word: str) -> AnyArray:
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


def _project(vectors: AnyArray, method: str) -> tuple[AnyArray, tuple[float, ...]]:
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


def _cluster(vectors: AnyArray, n_clusters: int) -> list[str]:
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
    points: AnyArray,
    tooltips: list[str],
) -> None:
    """Draw the points of each group in a colour and a shape.

    `groups` has their indices. The groups take turns in several rounds, so that none of
    them lies on top of another.
    """
    from matplotlib import colormaps

    n_groups = len(groups)
    colour_map = colormaps["tab10" if n_groups <= 10 else "turbo"]
    colours = colour_map.resampled(max(10, n_groups))
    n_rounds = _ROUNDS if n_groups > 1 else 1
    for round_index in range(n_rounds):
        for number, (name, members) in enumerate(groups.items()):
            drawn = members[round_index::n_rounds]
            label = f"{printable(name)} ({len(members):,})"
            drawing.add_points(
                axes,
                name=f"{number}-{round_index}",
                points=points[drawn].reshape(-1, 2),
                tooltips=[tooltips[index] for index in drawn],
                color=colours(number),
                marker=_MARKERS[number % len(_MARKERS)],
                alpha=0.75,
                markeredgewidth=0,
                label=label if round_index == 0 else None,
            )
    if n_groups > 1:
        axes.legend()


def _label_points(
    axes: Any, points: AnyArray, occurrences: Sequence[EmbeddedOccurrence]
) -> None:
    """Label points that have space for a label nearby.

    Points in the middle of dense places come first, then the outermost points.
    """
    space = _LabelSpace(axes, points)
    central = _central_points(points)
    distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
    outermost = np.argsort(-distances, kind="stable")
    n_labels = 0
    for index in dict.fromkeys([*central, *outermost]):
        if n_labels == MAX_LABELS:
            return
        occurrence = occurrences[index]
        if len(occurrence.sentence) == 1:  # The label would only be the word.
            continue
        shifts = _SHIFTS if index in central else _SHIFTS[:1]
        texts = space.draw(points[index], _occurrence_label(occurrence), shifts)
        if texts:
            name_label(texts, n_labels)
            n_labels += 1


def _central_points(points: AnyArray) -> list[int]:
    """Return the indices of the points in the middle of the densest places.

    These are the points that are nearest to the centres of k-means.
    """
    from sklearn.cluster import KMeans

    n_different = len(np.unique(points, axis=0))
    n_centres = min(_N_CENTRES, n_different)
    kmeans = KMeans(n_centres, n_init=4, random_state=_SEED).fit(points)
    sizes = np.bincount(kmeans.labels_, minlength=n_centres)
    central = []
    for number in np.argsort(-sizes, kind="stable"):
        distances = np.linalg.norm(points - kmeans.cluster_centers_[number], axis=1)
        central.append(int(distances.argmin()))
    return central


class _Place(NamedTuple):
    """Place of a label."""

    side: Side
    """Side of its point, or of the end of its line, on which the label stands."""
    shift: tuple[float, float]
    """Distance from the point to the right and upwards, in points (1/72 inch)."""
    box: Any
    """Box of matplotlib around the label, in pixels."""
    line: AnyArray
    """Pixels on the line from the point to the label, shape (n, 2)."""


class _LabelSpace:
    """Space in a picture that is not taken by points, labels or their lines."""

    def __init__(self, axes: Any, points: AnyArray) -> None:
        self._axes = axes
        self._renderer = axes.figure.canvas.get_renderer()
        self._frame = axes.get_window_extent(self._renderer)
        self._pixels_per_point = axes.figure.dpi / 72
        self._points = axes.transData.transform(points)
        """Pixels of all points, shape (n, 2)."""
        self._obstacles = self._points
        """Pixels that no label covers, shape (n, 2)."""
        self._lines = np.empty((0, 2))
        """Pixels of the lines that lead to labels, shape (n, 2)."""
        legend = axes.get_legend()
        self._taken = []
        if legend is not None:
            self._taken.append(legend.get_window_extent(self._renderer))

    def draw(
        self, point: AnyArray, label: MarkedText, shifts: Sequence[tuple[float, float]]
    ) -> list[Any]:
        """Draw a label in the first of several places that is free.

        Args:
            point: Point of the label, shape (2,).
            label: Word with its context.
            shifts: Distances of the label from the point to the right and upwards, in
                points (1/72 inch). A line joins them.

        Returns:
            The texts of the label; none if there is no space.
        """
        places = list(self._free_places(point, label, shifts))
        if not places:
            return []
        # The first one is the nearest.
        place = min(places, key=lambda place: self._n_points_on(place.line))
        self._take(point, place)
        return draw_label(self._axes, point, label, side=place.side, shift=place.shift)

    def _free_places(
        self, point: AnyArray, label: MarkedText, shifts: Sequence[tuple[float, float]]
    ) -> Iterator[_Place]:
        """Yield the free places of a label; the arguments are those of `draw`."""
        from matplotlib.transforms import Bbox

        for side in SIDES:
            texts = draw_label(self._axes, point, label, side=side)
            extents = [text.get_window_extent(self._renderer) for text in texts]
            unshifted = Bbox.union(extents).padded(6)
            for text in texts:
                text.remove()
            for shift in shifts:
                x_shift, y_shift = shift
                is_outwards = x_shift >= 0 if side == "right" else x_shift <= 0
                if not is_outwards:
                    continue
                x_pixels = x_shift * self._pixels_per_point
                y_pixels = y_shift * self._pixels_per_point
                box = unshifted.translated(x_pixels, y_pixels)
                line = self._line(point, x_pixels, y_pixels)
                if self._is_free(box, line):
                    yield _Place(side=side, shift=shift, box=box, line=line)

    def _line(self, point: AnyArray, x_pixels: float, y_pixels: float) -> AnyArray:
        """Return pixels on the line from a point to its label, shape (n, 2)."""
        start = self._axes.transData.transform(point)
        steps = np.linspace(0, 1, 30)[:, None]
        line: AnyArray = start + steps * np.array([x_pixels, y_pixels])
        return line

    def _is_free(self, box: Any, line: AnyArray) -> bool:
        if box.x0 <= self._frame.x0 or box.x1 >= self._frame.x1:
            return False
        if box.y0 <= self._frame.y0 or box.y1 >= self._frame.y1:
            return False
        if _has_any(box, self._obstacles):
            return False
        for other in self._taken:
            if box.overlaps(other) or _has_any(other, line):
                return False
        return not self._meets_line(line)

    def _meets_line(self, line: AnyArray) -> bool:
        """Return whether a line comes so near to another one that a reader mixes them.

        The steps of lines are shorter than this distance, so that crossings are found.
        """
        distances = np.linalg.norm(line[:, None] - self._lines, axis=2)
        nearest = _LINE_DISTANCE * self._pixels_per_point
        return bool((distances < nearest).any())

    def _n_points_on(self, line: AnyArray) -> int:
        """Count the points that a line touches, apart from the one where it begins."""
        distances = np.linalg.norm(self._points[:, None] - line, axis=2)
        touched = distances.min(axis=1) < _POINT_RADIUS * self._pixels_per_point
        return int(touched.sum()) - 1

    def _take(self, point: AnyArray, place: _Place) -> None:
        """Keep the space of a label, and draw the line that leads to it."""
        _, shift, box, line = place
        self._taken.append(box)
        if shift == (0, 0):
            return
        self._obstacles = np.concatenate([self._obstacles, line])
        self._lines = np.concatenate([self._lines, line])
        x_shift, y_shift = shift
        # The line ends at the text, which begins a little beside the place.
        gap = 3 if x_shift >= 0 else -3
        leader = self._axes.annotate(
            "",
            point,
            xytext=(x_shift + gap, y_shift),
            textcoords="offset points",
            arrowprops={
                "arrowstyle": "-",
                "color": "black",
                "alpha": 0.4,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        leader.set_in_layout(False)


def _has_any(box: Any, pixels: AnyArray) -> bool:
    """Return whether any of some pixels, shape (n, 2), is in a box."""
    are_inside = ((pixels > box.min) & (pixels < box.max)).all(axis=1)
    return bool(are_inside.any())


def _occurrence_label(occurrence: EmbeddedOccurrence) -> MarkedText:
    """Return the word with a few words around it."""
    sentence = [printable(token) for token in occurrence.sentence]
    return shorten(mark_token(sentence, occurrence.index), _LABEL_CHARACTERS)
