"""Pictures of occurrences, changes and surprisals, read back from SVG and HTML."""

import re
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from elmo_cli import (
    ElmoEmbedder,
    ElmoError,
    InputError,
    LanguageModel,
    measure_surprisal,
    open_occurrences,
    plot_changes,
    plot_surprisals,
    write_occurrences,
)
from elmo_cli.analysis.change.measure_change import Change
from elmo_cli.analysis.pictures import plot_changes as changes_module
from elmo_cli.analysis.pictures import plot_occurrences as occurrences_module
from elmo_cli.analysis.pictures import plot_surprisals as surprisals_module
from elmo_cli.analysis.pictures.plot_occurrences import (
    MAX_LABELS,
    Picture,
    plot_occurrences,
)
from elmo_cli.arrays import AnyArray
from elmo_cli.cli.main import main
from elmo_cli.errors.exceptions import OutputError
from elmo_cli.language_model.surprisal_table import UnitSurprisal
from elmo_cli.options.model import Direction
from tests.support.commands import TINY, Terminal, assert_fails, elmo
from tests.support.layouts import Corpus, line_record, write
from tests.support.table_files import write_matrices

pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')

SVG = "{http://www.w3.org/2000/svg}"


def senses(n_each: int, n_second: int | None = None, *, seed: int = 0) -> Corpus:
    """Return lines with "bank" in two senses, whose vectors are far apart.

    The shape of each value is (4, 6). The second sense has as many lines by default.
    """
    texts = [f"river bank <{i}> &" for i in range(n_each)]
    texts += [f"bank $ {i} $" for i in range(n_each if n_second is None else n_second)]
    records = [line_record(text) for text in texts]
    random = np.random.default_rng(seed)
    values = random.normal(size=(len(texts), 4, 6)).astype(np.float32)
    values[:n_each, 1, 0] += 20  # "bank" is token 1
    values[n_each:, 0, 0] -= 20  # "bank" is token 0
    return Corpus(records, list(values), {"layers": "top"})


pytestmark = pytest.mark.usefixtures("bank_vectors")


@pytest.fixture
def bank_vectors(folder: Path) -> None:
    """Write 20 occurrences of each sense into the current folder."""
    write(senses(20), "v.hdf5", "packed")


def plot(output: str, *files: str, word: str = "bank", **options: Any) -> Picture:
    """Plot a word from files, by default from `v.hdf5`."""
    with open_occurrences(*(files or ["v.hdf5"])) as opened:
        return plot_occurrences(opened, word, output, **options)


def groups(path: str, kind: str) -> list[ElementTree.Element]:
    found = ElementTree.parse(path).iter(f"{SVG}g")
    return [group for group in found if group.get("id", "").startswith(f"{kind}-")]


def tooltips(path: str, kind: str = "points") -> list[list[str]]:
    """Return the tooltips of each group of points or bars."""
    found: dict[str, list[str]] = {}
    for group in groups(path, kind):
        # A group of points is drawn in several rounds: `points-GROUP-ROUND`.
        name = "-".join(group.get("id", "").split("-")[:2])
        titles = [title.text or "" for title in group.iter(f"{SVG}title")]
        found.setdefault(name, []).extend(titles)
    return list(found.values())


def texts(path: str) -> list[str]:
    found = ElementTree.parse(path).iter(f"{SVG}text")
    return ["".join(text.itertext()) for text in found]


def labels(path: str) -> list[list[tuple[str, str]]]:
    """Return the parts of each label of a point, each with its style."""
    found = []
    for text in ElementTree.parse(path).iter(f"{SVG}text"):
        parts = text.findall(f"{SVG}tspan")
        if parts:
            found.append([(part.text or "", part.get("style", "")) for part in parts])
    return found


def test_every_occurrence_is_a_point_with_its_sentence() -> None:
    write(senses(60), "many.hdf5")
    picture = plot("bank.svg", "many.hdf5")
    assert picture.n_occurrences == 120
    assert picture.n_drawn == 120
    (group,) = groups("bank.svg", "points")
    titles = {}
    for point in group.iter(f"{SVG}use"):
        titles[point.findtext(f"{SVG}title", "")] = float(point.get("x", ""))
    assert len(titles) == 120
    assert "1: river [bank] <0> &" in titles
    # The senses are on two sides.
    rivers = [x for title, x in titles.items() if "river" in title]
    others = [x for title, x in titles.items() if "river" not in title]
    assert max(rivers) < min(others) or max(others) < min(rivers)
    assert 5 < len(labels("bank.svg")) <= MAX_LABELS
    # Dollars do not make a formula.
    assert any(text.startswith("bank $") for text in texts("bank.svg"))


@pytest.mark.parametrize("output", ["v.svg", "./v.svg", "link.svg"])
def test_a_picture_never_replaces_the_vectors(output: str) -> None:
    vectors = Path("v.hdf5").rename("v.svg")
    Path("link.svg").symlink_to("v.svg")
    before = vectors.read_bytes()
    with pytest.raises(OutputError, match=r"svg: the output is also an input\."):
        plot(output, "v.svg", overwrite=True)
    assert vectors.read_bytes() == before


def test_labels_are_text_with_the_word_in_bold() -> None:
    lines = []
    for n in range(3):
        lines.append(
            f"I don 't know why the old bank ( number {n} ) of the river sank ."
        )
    records = [line_record(line) for line in lines]
    random = np.random.default_rng(0)
    values = [
        random.normal(size=(len(record.tokens), 6)).astype(np.float32)
        for record in records
    ]
    write(Corpus(records, values, {"layers": "top"}), "long.hdf5", "packed")
    plot("long.svg", "long.hdf5")
    assert tooltips("long.svg")[0][0] == (
        "1: I don't know why the old [bank] (number 0) of the river sank."
    )
    bold = "font-weight: bold"
    light = "fill-opacity: 0.7"
    drawn = labels("long.svg")
    assert drawn
    for before, word, (after, after_style) in drawn:
        assert before == ("…why the old ", light)
        assert word == ("bank", bold)
        assert after.startswith(" (number ")
        assert after.endswith(") of…")
        assert after_style == light


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_axes_have_no_numbers_and_the_page_says_what_they_are(method: str) -> None:
    plot("bank.svg", method=method)
    assert not [text for text in texts("bank.svg") if re.fullmatch(r".?\d+", text)]
    plot("bank.html", method=method)
    page = Path("bank.html").read_text(encoding="utf-8")
    _, _, caption = page.partition("<figcaption>")
    said = {
        "pca": "principal components. They show 9",
        "tsne": "The axes have no meaning. t-SNE keeps neighbours together",
    }
    assert said[method] in caption


def lines_to_labels(path: str) -> list[AnyArray]:
    """Return points on the line of each label that has one, each of shape (50, 2)."""
    found = []
    for line in ElementTree.parse(path).iter(f"{SVG}path"):
        if "opacity: 0.4;" in line.get("style", ""):
            numbers = re.findall(r"[\d.]+", line.get("d", ""))
            start = np.array(numbers[:2], float)
            end = np.array(numbers[-2:], float)
            found.append(np.linspace(start, end))
    return found


def test_a_label_without_space_beside_its_point_has_a_line_to_it() -> None:
    write(senses(300), "dense.hdf5", "packed")
    plot("dense.svg", "dense.hdf5")
    lines = lines_to_labels("dense.svg")
    assert 1 <= len(lines) <= len(labels("dense.svg"))


def test_lines_to_labels_do_not_meet() -> None:
    write(senses(300), "dense.hdf5", "packed")
    plot("dense.svg", "dense.hdf5")
    lines = lines_to_labels("dense.svg")
    for first, second in combinations(lines, 2):
        distances = np.linalg.norm(first[:, None] - second, axis=2)
        assert distances.min() > 4


def test_a_file_is_opened_by_its_path() -> None:
    assert plot_occurrences("v.hdf5", "bank", "path.svg") == plot("opened.svg")
    assert Path("path.svg").read_bytes() == Path("opened.svg").read_bytes()
    write(senses(20), "w.hdf5")
    both = plot_occurrences(["v.hdf5", "w.hdf5"], "bank", "both.svg")
    assert both.n_occurrences == 80
    with pytest.raises(FileNotFoundError, match=r"^missing\.hdf5: no such file"):
        plot_occurrences("missing.hdf5", "bank", "path2.svg")


def test_the_axes_say_their_share_of_the_variance() -> None:
    there = senses(60)
    write(there, "many.hdf5")
    picture = plot("bank.svg", "many.hdf5")
    banks = []
    for record, values in zip(there.records, there.values, strict=True):
        banks.append(values[record.tokens.index("bank")])
    vectors = np.stack(banks)
    centred = vectors - vectors.mean(axis=0)
    variances = np.linalg.svd(centred, compute_uv=False) ** 2
    shares = variances / variances.sum()
    np.testing.assert_allclose(picture.variance, shares[:2], rtol=1e-4)
    label = f"principal component 1: {shares[0]:.0%} of the variance"
    assert label in texts("bank.svg")


def test_each_cluster_and_file_has_a_colour() -> None:
    plot("clusters.svg", clusters=2)
    clusters = tooltips("clusters.svg")
    assert [len(titles) for titles in clusters] == [20, 20]
    n_rivers = [sum("river" in title for title in titles) for titles in clusters]
    assert sorted(n_rivers) == [0, 20]
    shown = texts("clusters.svg")
    assert "cluster 1 (20)" in shown
    assert "cluster 2 (20)" in shown

    for n_first, n_second in ((6, 15), (15, 6)):
        name = f"{n_first}.hdf5"
        write(senses(n_first, n_second), name)
        plot("unequal.svg", name, clusters=2, overwrite=True)
        assert {"cluster 1 (15)", "cluster 2 (6)"} <= set(texts("unequal.svg"))
        largest = tooltips("unequal.svg")[0]
        assert len(largest) == 15
        assert all(("river" in title) == (n_first > n_second) for title in largest)

    write(senses(3, seed=0), "w.hdf5")
    write(senses(3, seed=1), "a.hdf5")
    plot("files.SVG", "w.hdf5", "a.hdf5", "v.hdf5")
    Path("files.SVG").rename("files.svg")
    assert [len(group) for group in tooltips("files.svg")] == [6, 6, 40]
    assert tooltips("files.svg")[0][0] == "w.hdf5:1: river [bank] <0> &"
    legend = [text for text in texts("files.svg") if ".hdf5 (" in text]
    assert legend == ["w.hdf5 (6)", "a.hdf5 (6)", "v.hdf5 (40)"]


@pytest.mark.parametrize("name", ["u.hdf5", "u.parquet"])
def test_a_target_word_is_drawn_with_all_its_forms(name: str) -> None:
    Path("t.txt").write_text("the bank lent\nall banks closed\nmy bank\nold banks\n")
    words = {"bank": "bank", "banks": "bank"}
    write_occurrences(ElmoEmbedder(model=TINY), "t.txt", name, words)
    assert plot("bank.svg", name).n_occurrences == 4
    assert tooltips("bank.svg")[0][1] == "2: all [banks] closed"
    assert "bank (banks): 4 occurrences" in texts("bank.svg")
    with pytest.raises(ElmoError, match="'banks' has 2 occurrences in "):
        plot("banks.svg", name, word="banks")


def test_plot_shows_each_step_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    main(["plot", "bank", "v.hdf5", "bank.svg"], standalone_mode=False)
    printed = terminal.getvalue()
    assert "loading: " in printed
    assert "reading: " in printed
    assert "projecting: 40 records" in printed
    assert "drawing: 40 records" in printed
    last = printed.splitlines()[-1]
    assert last.startswith("Wrote bank.svg: 40 of 40 occurrences")


def test_an_html_page_needs_no_other_file() -> None:
    plot("bank.svg")
    plot("bank.html")
    page = Path("bank.html").read_text(encoding="utf-8")
    picture = Path("bank.svg").read_text(encoding="utf-8")
    before, inlined, after = page.partition(picture[picture.index("<svg") :])
    assert "<title>bank: 40 occurrences</title>" in before
    assert inlined
    assert after.startswith("\n</div>\n<figcaption>Each point is one occurrence")
    assert after.endswith("</script>\n</html>\n")
    assert "$" not in before + after
    assert set(re.findall(r'(?:src|href|data)="(.)', page)) == {"#"}


def test_characters_that_cannot_be_printed_are_replaced() -> None:
    there = senses(2)
    records = [line_record(f"{record.text}\0 \ud800") for record in there.records]
    # One token more.
    values = [np.concatenate([each, each[:1]]) for each in there.values]
    write(Corpus(records, values, there.attributes), "odd.hdf5", "packed")
    plot("odd.svg", "odd.hdf5")
    assert tooltips("odd.svg")[0][0] == "1: river [bank] <0> &\ufffd \ufffd"


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    problem = (
        r"^plot needs matplotlib, which is not installed\. Install it with .*\[plot\]"
    )
    with pytest.raises(ElmoError, match=problem):
        plot("bank.svg")
    assert not Path("bank.svg").exists()


def test_the_command_says_what_it_drew() -> None:
    result = elmo("plot", "bank", "v.hdf5", "bank.svg")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    summary = "Wrote bank.svg: 40 of 40 occurrences; the axes show 9"
    assert result.stderr.startswith(summary)


def test_equal_vectors_cannot_be_drawn() -> None:
    same = [np.ones((4, 6), np.float32)] * 10
    write(Corpus(senses(5).records, same, {"layers": "word_emb"}), "same.hdf5")
    result = elmo("plot", "bank", "same.hdf5", "x.svg")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Warning: these vectors include layer 0, which groups words by spelling",
        "Error: 'bank': all occurrences have the same vector, as in layer 0",
    ]


def test_files_of_two_widths_cannot_be_drawn() -> None:
    write_matrices("w.parquet", {"bank": np.eye(5)})
    width = r"^w\.parquet: .* width 6, as in v\.hdf5, found 5"
    with pytest.raises(ElmoError, match=width):
        plot("x.svg", "v.hdf5", "w.parquet")


# Changes

CHANGES = [
    Change("mouse", 0.5, 9, 1200, p=0.001, adjusted_p=0.003, by_chance=(0.1, 0.2)),
    Change("<house>", 0.3, 8, 9, p=0.03, adjusted_p=0.06, by_chance=(0.2, 0.29)),
    Change("tree", 0.2, 8, 9, p=0.5, adjusted_p=0.5, by_chance=(0.15, 0.3)),
    Change("rare", None, n_old=1, n_new=9),
]


def test_each_changed_word_is_a_point_with_its_figures() -> None:
    assert plot_changes(CHANGES, "c.svg") == 3
    [changed], others = tooltips("c.svg")
    assert changed == (
        "mouse: 0.5000, 9 old and 1,200 new, p 0.0010, adjusted p 0.0030, "
        "0.1000 to 0.2000 by chance"
    )
    assert others == [
        "<house>: 0.3000, 8 old and 9 new, p 0.0300, adjusted p 0.0600, "
        "0.2000 to 0.2900 by chance",
        "tree: 0.2000, 8 old and 9 new, p 0.5000, adjusted p 0.5000, "
        "0.1500 to 0.3000 by chance",
    ]
    shown = texts("c.svg")
    for text in ("mouse", "<house>", "tree", "Change of 3 words", "adjusted p < 0.05"):
        assert text in shown
    assert "rare" not in shown
    # The name of the p stands over the column of its figures.
    assert {"adjusted p", "0.0030", "0.0600", "0.5000"} <= set(shown)


def bands(path: str) -> list[tuple[float, float]]:
    """Return the left and right edges of the bands, which are the grey rectangles."""
    found = []
    for path_element in ElementTree.parse(path).iter(f"{SVG}path"):
        if path_element.get("style", "").startswith("opacity: 0.18"):
            corners = re.findall(r"[ML] (\S+) ", path_element.get("d", ""))
            edges = [float(corner) for corner in corners]
            if path_element.get("clip-path"):  # not in the legend
                found.append((min(edges), max(edges)))
    return found


def test_each_word_has_a_band_of_changes_by_chance() -> None:
    plot_changes(CHANGES, "c.svg")
    drawn = bands("c.svg")
    assert len(drawn) == 3
    # All have one scale, which the points have too.
    scale = (drawn[0][1] - drawn[0][0]) / 0.1
    origin = drawn[0][0] - 0.1 * scale
    for (left, right), change in zip(drawn, CHANGES, strict=False):
        assert change.by_chance is not None
        expected = [origin + scale * edge for edge in change.by_chance]
        np.testing.assert_allclose([left, right], expected, atol=0.01)
    drawn_at = []
    for group in groups("c.svg", "points"):
        drawn_at += [float(point.get("x", "")) for point in group.iter(f"{SVG}use")]
    expected = [origin + scale * each for each in (0.5, 0.3, 0.2)]
    np.testing.assert_allclose(drawn_at, expected, atol=0.01)
    assert "by chance (5–95%)" in texts("c.svg")


def test_an_infinite_band_is_left_out() -> None:
    infinite = CHANGES[0]._replace(by_chance=(1.0, float("inf")))
    plot_changes([infinite, CHANGES[1]], "c.svg", "prt")
    assert len(bands("c.svg")) == 1


def colours_of_points(path: str) -> set[str]:
    colours = set()
    for group in groups(path, "points"):
        for point in group.iter(f"{SVG}use"):
            colours.update(re.findall("fill: (#[0-9a-f]+)", point.get("style", "")))
    return colours


GREY_POINT = "#737373"


def test_a_word_without_p_is_grey_among_others() -> None:
    without_p = CHANGES[2]._replace(p=None, adjusted_p=None)
    plot_changes([*CHANGES[:2], without_p], "c.svg")
    assert [len(group) for group in tooltips("c.svg")] == [1, 1, 1]
    assert colours_of_points("c.svg") == {"#1f77b4", "#ffffff", GREY_POINT}


def test_changes_may_have_no_p() -> None:
    without_p = [
        change._replace(p=None, adjusted_p=None, by_chance=None) for change in CHANGES
    ]
    plot_changes(without_p, "c.svg", "jsd")
    assert [len(group) for group in tooltips("c.svg")] == [3]
    # Filled points in blue would look like small ps.
    assert colours_of_points("c.svg") == {GREY_POINT}
    shown = texts("c.svg")
    assert not any("p <" in text for text in shown)
    assert bands("c.svg") == []
    assert not any("by chance" in text for text in shown)
    assert "Jensen-Shannon divergence over clusters, in nats" in shown


def test_the_command_draws_its_list() -> None:
    random = np.random.default_rng(0)
    for name in ("old.parquet", "new.parquet"):
        mouse = random.normal(size=(5, 4))
        house = random.normal(size=(5, 4))
        write_matrices(name, {"mouse": mouse, "house": house})
    command = ["change", "old.parquet", "new.parquet", "--plot", "c.svg"]
    result = elmo(*command)
    assert result.exit_code == 0
    advice = "Add --permutations 1000 to see how much changes by chance"
    assert result.stderr == f"Wrote c.svg: 2 words. {advice}\n"
    assert len(result.stdout.splitlines()) == 3
    assert_fails(
        elmo(*command), "c.svg: already exists. Use --overwrite to replace it."
    )
    result = elmo(*command, "--overwrite", "--permutations", "20")
    assert result.stderr == "Wrote c.svg: 2 words\n"
    assert len(bands("c.svg")) == 2


# Surprisals


def measured(text: str, *bits: float, is_known: bool = True) -> UnitSurprisal:
    """Return a word with its bits: forward, and perhaps backward."""
    return UnitSurprisal(0, text, 1, int(not is_known), list(bits), [], None)


class Sentence(NamedTuple):
    """Sentence with its surprisals."""

    name: str
    units: list[UnitSurprisal]


def sentence_of(*units: UnitSurprisal, name: str = "7") -> Sentence:
    return Sentence(name, list(units))


def draw_surprisals(
    sentences: Sequence[Sentence], output: str, direction: Direction = "forward"
) -> int:
    return plot_surprisals(
        [sentence.units for sentence in sentences],
        output,
        direction,
        names=[sentence.name for sentence in sentences],
    )


GARDEN_PATH = sentence_of(
    measured("The", 2.0),
    measured("<horse>", 8.25, is_known=False),
    measured("fell.", 19.0),
    name="mv1",
)


def bars(path: str) -> list[ElementTree.Element]:
    """Return the shape of each bar."""
    return [next(group.iter(f"{SVG}path")) for group in groups(path, "bars")]


Box = tuple[float, float, float, float]
"""Left, top, right and bottom edge of a shape."""


def box_of(shape: ElementTree.Element) -> Box:
    corners = re.findall(r"[ML] (\S+) (\S+)", shape.get("d", ""))
    points = np.array(corners, float)
    left, top = points.min(axis=0).tolist()
    right, bottom = points.max(axis=0).tolist()
    return left, top, right, bottom


def panels(path: str) -> list[Box]:
    """Return the edges of the panels that have bars."""
    found = []
    for axes in ElementTree.parse(path).iter(f"{SVG}g"):
        is_panel = axes.get("id", "").startswith("axes_")
        parts = [part.get("id", "") for part in axes.iter(f"{SVG}g")]
        if is_panel and any(name.startswith("bars-") for name in parts):
            background = next(axes.iter(f"{SVG}path"))
            found.append(box_of(background))
    return found


def styles(path: str) -> list[str]:
    return [bar.get("style", "") for bar in bars(path)]


BLUE = "fill: #1f77b4"
ORANGE = "fill: #ff7f0e"
GREY = "opacity: 0.3; stroke: #000000; stroke-linejoin: miter"


def test_each_word_is_a_bar_with_its_figures() -> None:
    empty = sentence_of()
    assert draw_surprisals([GARDEN_PATH, empty, empty], "s.svg") == 1
    assert tooltips("s.svg", "bars") == [
        ["The: 2.00 bits forward"],
        ["<horse>: 8.25 bits forward, unknown"],
        ["fell.: 19.00 bits forward"],
    ]
    shown = texts("s.svg")
    for text in ("mv1: The <horse> fell.", "The", "<horse>", "surprisal (bits)"):
        assert text in shown
    # Each bar shows its value.
    assert [text for text in shown if text in ("2.0", "8.2", "19.0")] == [
        "2.0",
        "8.2",
        "19.0",
    ]


def test_the_height_of_a_bar_is_its_surprisal() -> None:
    draw_surprisals([GARDEN_PATH], "s.svg")
    boxes = [box_of(bar) for bar in bars("s.svg")]
    heights = np.array([bottom - top for _, top, _, bottom in boxes])
    np.testing.assert_allclose(heights / heights[0], [1, 8.25 / 2, 19 / 2], rtol=1e-3)
    bottoms = [bottom for *_, bottom in boxes]
    np.testing.assert_allclose(bottoms, bottoms[0])


def test_all_bars_are_in_their_panels() -> None:
    long = sentence_of(*[measured(f"w{n}", 5.0 + n) for n in range(9)])
    draw_surprisals([GARDEN_PATH, long, ARE, IS, long], "s.svg")
    found = panels("s.svg")
    assert len(found) == 4
    for bar in bars("s.svg"):
        left, top, right, bottom = box_of(bar)
        inside = [
            panel
            for panel in found
            if panel[0] <= left
            and panel[1] <= top
            and right <= panel[2]
            and bottom <= panel[3] + 0.01
        ]
        assert len(inside) == 1


def test_unknown_words_are_grey() -> None:
    draw_surprisals([GARDEN_PATH], "s.svg")
    the, horse, fell = styles("s.svg")
    assert the.startswith(BLUE)
    assert fell.startswith(BLUE)
    assert horse.startswith("opacity: 0.3")
    assert "grey: not in the vocabulary" in texts("s.svg")
    known = sentence_of(measured("The", 2.0), measured("end", 3.0))
    draw_surprisals([known], "known.svg")
    assert all(style.startswith(BLUE) for style in styles("known.svg"))
    assert "grey: not in the vocabulary" not in texts("known.svg")


ARE = sentence_of(
    measured("keys", 11.0), measured("are", 3.0), measured("here.", 14.0),
    name="a1",
)  # fmt: skip
IS = sentence_of(
    measured("keys", 11.0), measured("is", 6.0), measured("here.", 15.0),
    name="a2",
)  # fmt: skip


def test_sentences_that_differ_in_a_word_are_laid_over_each_other() -> None:
    other = sentence_of(measured("Go", 1.0), measured("home", 2.0), measured("!", 3.0))
    assert draw_surprisals([ARE, IS, other], "s.svg") == 3
    assert tooltips("s.svg", "bars") == [
        ["a1, keys: 11.00 bits forward"],
        ["a1, are: 3.00 bits forward"],
        ["a1, here.: 14.00 bits forward"],
        ["a2, keys: 11.00 bits forward"],
        ["a2, is: 6.00 bits forward"],
        ["a2, here.: 15.00 bits forward"],
        ["Go: 1.00 bits forward"],
        ["home: 2.00 bits forward"],
        ["!: 3.00 bits forward"],
    ]
    drawn = styles("s.svg")
    colours = [BLUE] * 3 + [ORANGE] * 3 + [BLUE] * 3
    for style, colour in zip(drawn, colours, strict=True):
        assert style.startswith(colour)
    # Words of both sentences are lighter.
    are_light = ["opacity" in style for style in drawn]
    assert are_light == [True, False, True] * 2 + [False] * 3
    shown = texts("s.svg")
    # Both words are below their bars, and words of both sentences are there once.
    for text in ("a1: keys are here.", "a2: keys is here.", "are", "is", "7: Go home!"):
        assert text in shown
    assert shown.count("keys") == 1
    assert "darker: words that differ" in shown


def colours_of_words(path: str) -> dict[str, str]:
    """Return the colour of each word in bold."""
    colours = {}
    for text in ElementTree.parse(path).iter(f"{SVG}text"):
        style = text.get("style", "")
        if "font-weight: 700" in style:
            found = re.search(r"fill: (#\w+)", style)
            colours[text.text or ""] = found[1] if found else "black"
    return colours


def test_words_have_colours_if_each_sentence_has_its_own() -> None:
    draw_surprisals([ARE, IS], "two.svg")
    assert colours_of_words("two.svg") == {"are": "#1f77b4", "is": "#ff7f0e"}
    draw_surprisals([ARE, IS, ARE], "three.svg")
    assert colours_of_words("three.svg") == {"are": "black", "is": "black"}


def test_surprisals_of_one_or_several_texts_can_be_drawn() -> None:
    model = LanguageModel()
    one = measure_surprisal(model, "We sat.", by="word", direction="both")
    assert plot_surprisals(one, "one.svg", "both") == 1
    assert "1: We sat." in texts("one.svg")
    several = measure_surprisal(model, ["We sat.", "We ran."], by="word")
    assert plot_surprisals(several, "several.svg", names=["a", "b"]) == 2
    assert {"a: We sat.", "b: We ran."} <= set(texts("several.svg"))
    directions = (
        r"^surprisals\[0\]: expected 1 direction, found 2\. "
        "Use the direction of measure_surprisal"
    )
    with pytest.raises(InputError, match=directions):
        plot_surprisals(one, "wrong.svg")
    with pytest.raises(InputError, match=r"^names: expected 2 names, found 1$"):
        plot_surprisals(several, "wrong.svg", names=["a"])


def test_sentences_of_other_lengths_or_words_have_panels_of_their_own() -> None:
    shorter = sentence_of(measured("keys", 11.0), measured("are", 3.0))
    different = sentence_of(
        measured("keys", 1.0), measured("lay", 2.0), measured("there.", 3.0)
    )
    draw_surprisals([ARE, shorter, different], "s.svg")
    assert all(style.startswith(BLUE) for style in styles("s.svg"))
    draw_surprisals([ARE, IS] * 3, "six.svg")
    # Four are together, then two.
    assert len(colours_of("six.svg", 0, 12)) == 4
    assert len(colours_of("six.svg", 12, 18)) == 2


def colours_of(path: str, start: int, stop: int) -> set[str]:
    """Return the colours of some bars, without their opacity."""
    return {style.split(";")[0] for style in styles(path)[start:stop]}


def test_both_directions_are_bars_next_to_each_other() -> None:
    sentence = sentence_of(measured("a" * 17, 1.0, 2.0), measured("b", 3.0, 4.0))
    other = sentence_of(measured("c", 5.0, 6.0))
    assert draw_surprisals([sentence, other], "s.html", "both") == 2
    page = Path("s.html").read_text(encoding="utf-8")
    assert "<title>Surprisal of 2 sentences</title>" in page
    svg = page[page.index("<svg") : page.index("</div>")]
    Path("s.svg").write_text(svg, encoding="utf-8")
    assert tooltips("s.svg", "bars") == [
        ["aaaaaaaaaaaaaaaaa: 1.00 bits forward"],
        ["b: 3.00 bits forward"],
        ["aaaaaaaaaaaaaaaaa: 2.00 bits backward"],
        ["b: 4.00 bits backward"],
        ["c: 5.00 bits forward"],
        ["c: 6.00 bits backward"],
    ]
    shown = texts("s.svg")
    for text in (f"7: {'a' * 17} b", "aaaaaaaaaaaaaaa…", "forward", "backward"):
        assert text in shown


def test_similar_sentences_in_both_directions_have_a_panel_per_direction() -> None:
    first = sentence_of(measured("a", 1.0, 2.0), measured("b", 3.0, 4.0), name="x")
    second = sentence_of(measured("a", 5.0, 6.0), measured("c", 7.0, 8.0), name="y")
    draw_surprisals([first, second], "s.svg", "both")
    shown = texts("s.svg")
    for text in ("x: a b", "y: a c", "x, backward: a b", "y, backward: a c"):
        assert text in shown
    assert len(tooltips("s.svg", "bars")) == 8


def test_a_long_passage_goes_on_in_the_next_panel() -> None:
    words = [measured(f"w{number}", 1.0) for number in range(40)]
    assert draw_surprisals([sentence_of(*words)], "s.svg") == 1
    shown = texts("s.svg")
    assert shown.count("surprisal (bits)") == 3  # in each panel
    assert "w39" in shown
    many = [measured("w", 1.0)] * 40_000
    assert draw_surprisals([sentence_of(*many)], "s.png") == 1


# All pictures

DRAW: dict[str, Callable[[str], Any]] = {
    "pca": lambda path: plot(path, clusters=2),
    "tsne": lambda path: plot(path, method="tsne", clusters=2),
    "changes": lambda path: plot_changes(CHANGES, path),
    "surprisals": lambda path: draw_surprisals([GARDEN_PATH] * 2, path),
}
MAGIC = {
    ".svg": b"<?xml",
    ".png": b"\x89PNG",
    ".pdf": b"%PDF",
    ".html": b"<!DOCTYPE html>",
}


@pytest.mark.parametrize("kind", DRAW)
def test_equal_figures_give_equal_files(kind: str) -> None:
    draw = DRAW[kind]
    suffixes = list(MAGIC) if kind == "changes" else [".svg"]
    for suffix in suffixes:
        picture = draw(f"1{suffix}")
        draw(f"2{suffix}")
        content = Path(f"1{suffix}").read_bytes()
        assert content == Path(f"2{suffix}").read_bytes()
        assert content.startswith(MAGIC[suffix])
        if kind == "pca":
            assert picture.variance != ()
        if kind == "tsne":
            assert picture.variance == ()


def test_a_picture_that_cannot_be_drawn_is_an_error() -> None:
    with pytest.raises(ElmoError, match=r"^c\.svg: no word has enough occurrences"):
        plot_changes(CHANGES[3:], "c.svg")
    with pytest.raises(ElmoError, match=r"^s\.svg: no sentence has tokens to draw"):
        draw_surprisals([sentence_of()], "s.svg")


def test_a_picture_has_a_maximum_of_points_words_and_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(occurrences_module, "MAX_POINTS", 7)
    monkeypatch.setattr(changes_module, "MAX_WORDS", 2)
    monkeypatch.setattr(surprisals_module, "MAX_SENTENCES", 2)
    picture = plot("few.svg")
    assert picture.n_occurrences == 40
    assert picture.n_drawn == 7
    assert "bank: 40 occurrences, 7 of them drawn" in texts("few.svg")
    # They are chosen at random, not the first ones.
    are_rivers = {"river" in title for title in tooltips("few.svg")[0]}
    assert are_rivers == {True, False}
    assert plot_changes([Change("inf", float("inf"), 3, 3), *CHANGES], "c.svg") == 2
    assert "Change of 3 words, the 2 with the largest changes" in texts("c.svg")
    assert "tree" not in texts("c.svg")
    assert "inf" not in texts("c.svg")
    assert draw_surprisals([GARDEN_PATH] * 3, "s.svg") == 2
