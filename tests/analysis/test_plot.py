"""Pictures of the occurrences of a word, read back from SVG and HTML."""

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import TINY, Terminal, assert_fails, assert_misused, elmo
from layouts import Corpus, line_record, write
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder, ElmoError, open_occurrences, write_occurrences
from elmo_cli.analysis import scatter as module
from elmo_cli.analysis.scatter import Picture, plot_occurrences
from elmo_cli.cli import main

pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')

SVG = "{http://www.w3.org/2000/svg}"
Array = NDArray[Any]


def senses(n_each: int, seed: int = 0) -> Corpus:
    """Return lines with "bank" in two senses, far apart in direction 0, and other words."""
    random = np.random.default_rng(seed)
    texts = [f"river bank <{i}> &" for i in range(n_each)] + [
        f"bank $ {i} $" for i in range(n_each)
    ]
    values = []
    for text in texts:
        vectors = random.normal(size=(len(text.split()), 6))
        vectors[text.split().index("bank"), 0] += 20 if "river" in text else -20
        values.append(vectors.astype(np.float32))
    return Corpus(list(map(line_record, texts)), values, {"layers": "top"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(senses(20), "v.hdf5", "packed")


def plot(output: str, *files: str, word: str = "bank", **options: Any) -> Picture:
    with open_occurrences(*(files or ("v.hdf5",))) as opened:
        return plot_occurrences(opened, word, output, **options)


def points(path: str) -> list[list[tuple[str, float]]]:
    """Return the title and the x of each point, group by group."""
    root = ElementTree.parse(path)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("id", "").startswith("points-")]
    return [
        [
            (use.findtext(f"{SVG}title") or "", float(use.get("x", "")))
            for use in g.iter(f"{SVG}use")
        ]
        for g in groups
    ]


def texts(path: str) -> list[str]:
    return [text.text or "" for text in ElementTree.parse(path).iter(f"{SVG}text")]


def test_every_occurrence_is_a_point_with_its_sentence() -> None:
    picture = plot("bank.svg")
    (group,) = points("bank.svg")
    titles = dict(group)
    assert len(titles) == 40
    sides = {"river" in title: set[bool]() for title in titles}
    for title, x in titles.items():
        sides["river" in title].add(bool(x > np.mean(list(titles.values()))))
    assert sorted(map(list, sides.values())) == [[False], [True]]
    assert "1: river [bank] <0> &" in titles
    assert (picture.n_occurrences, picture.n_drawn) == (40, 40)
    vectors = np.stack([v[r.tokens.index("bank")] for r, v in zip(*senses(20)[:2], strict=True)])
    values = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(picture.variance, (values / values.sum())[:2], rtol=1e-4)
    assert f"principal component 1: {picture.variance[0]:.0%} of the variance" in texts("bank.svg")


def test_a_limited_number_of_points_has_labels() -> None:
    write(senses(60), "many.hdf5")
    plot("bank.svg", "many.hdf5")
    labels = [text for text in texts("bank.svg") if "bank" in text and ":" not in text]
    assert 5 < len(labels) <= module.MAX_LABELS
    assert any(label.startswith("bank $") for label in labels)  # not read as a formula


def test_each_cluster_and_file_has_a_colour() -> None:
    plot("clusters.svg", clusters=2)
    one, other = points("clusters.svg")
    assert {"river" in title for title, _ in one} != {"river" in title for title, _ in other}
    assert (len(one), len(other)) == (20, 20)
    assert {"cluster 1 (20)", "cluster 2 (20)"} <= set(texts("clusters.svg"))
    write(senses(3, seed=1), "w.hdf5")
    plot("files.SVG", "v.hdf5", "w.hdf5")
    Path("files.SVG").rename("files.svg")
    assert [len(group) for group in points("files.svg")] == [40, 6]
    assert points("files.svg")[1][0][0] == "w.hdf5:1: river [bank] <0> &"
    assert {"v.hdf5 (40)", "w.hdf5 (6)"} <= set(texts("files.svg"))


def test_the_legend_has_the_files_in_their_order() -> None:
    for number, name in enumerate(("old.hdf5", "new.hdf5")):
        write(senses(3, seed=number), name)
    plot("order.svg", "old.hdf5", "new.hdf5", "v.hdf5")
    legend = [text for text in texts("order.svg") if ".hdf5 (" in text]
    assert legend == ["old.hdf5 (6)", "new.hdf5 (6)", "v.hdf5 (40)"]
    assert [len(group) for group in points("order.svg")] == [6, 6, 40]


@pytest.mark.parametrize("name", ["u.hdf5", "u.npz", "u.parquet", "u.jsonl"])
def test_a_target_word_is_drawn_with_all_its_forms(name: str) -> None:
    Path("t.txt").write_text("the bank lent\nall banks closed\nmy bank\nold banks\n")
    words = {"bank": "bank", "banks": "bank"}
    write_occurrences(ElmoEmbedder(model=TINY), "t.txt", name, words)
    assert plot("bank.svg", name).n_occurrences == 4
    titles = [title for title, _ in points("bank.svg")[0]]
    assert titles[1] == ("2: [bank]" if name.endswith(".npz") else "2: all [banks] closed")
    if not name.endswith(".npz"):
        with pytest.raises(ElmoError, match="'banks': 2 occurrences in "):
            plot("banks.svg", name, word="banks")


def test_plot_shows_each_step_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    main(["plot", "bank", "v.hdf5", "bank.svg"], standalone_mode=False)
    steps = ("loading: ", "reading: ", "projecting: 40 records", "drawing: 40 records")
    assert [step for step in steps if step not in stream.getvalue()] == [], stream.getvalue()
    assert stream.getvalue().splitlines()[-1].startswith("Wrote bank.svg: 40 of 40 occurrences")


def test_files_of_other_widths_are_refused() -> None:
    np.savez("w.npz", bank=np.eye(5, dtype=np.float32))
    message = r"^w\.npz: expected vectors of width 6, as in v\.hdf5, found 5"
    with pytest.raises(ElmoError, match=message):
        plot("bank.svg", "v.hdf5", "w.npz")


def test_equal_occurrences_give_equal_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("pca", "tsne"):
        pictures = [plot(f"{n}.svg", method=method, clusters=2, overwrite=True) for n in (1, 2)]
        assert Path("1.svg").read_bytes() == Path("2.svg").read_bytes()
        assert (pictures[0].variance == ()) == (method == "tsne")
    monkeypatch.setattr(module, "MAX_POINTS", 7)
    picture = plot("few.svg")
    assert (picture.n_occurrences, picture.n_drawn) == (40, 7)
    assert "bank: 40 occurrences, 7 of them drawn" in texts("few.svg")


def test_an_html_page_needs_no_other_file() -> None:
    plot("bank.svg")
    plot("bank.html")
    page = Path("bank.html").read_text(encoding="utf-8")
    picture = Path("bank.svg").read_text(encoding="utf-8")
    before, inside, after = page.partition(picture[picture.index("<svg") :])
    assert "<title>bank: 40 occurrences</title>" in before
    assert inside
    assert after == "\n</html>\n"
    links = re.findall(r'(?:src|href|data)="([^"]+)"', page)
    assert {link[0] for link in links} == {"#"}


def test_characters_that_cannot_be_printed_are_replaced() -> None:
    odd = senses(2)
    records = [line_record(f"{r.text}\0 \ud800") for r in odd.records]
    values = [np.concatenate([v, v[:1]]) for v in odd.values]
    write(odd._replace(records=records, values=values), "odd.hdf5", "packed")
    plot("odd.svg", "odd.hdf5")
    assert points("odd.svg")[0][0][0] == "1: river [bank] <0> &\ufffd \ufffd"


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_png_and_pdf_are_written(suffix: str, magic: bytes) -> None:
    for _ in range(2):
        plot(f"bank{suffix}", overwrite=True)
    assert Path(f"bank{suffix}").read_bytes().startswith(magic)


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = (
        r"^plot needs matplotlib, which is not installed\. Install it with pip install .*\[plot\]"
    )
    with pytest.raises(ElmoError, match=message):
        plot("bank.svg")
    assert not Path("bank.svg").exists()


def test_the_command() -> None:
    result = elmo("plot", "bank", "v.hdf5", "bank.svg")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Wrote bank.svg: 40 of 40 occurrences; the axes show 9")
    write(senses(5), "few.hdf5")
    pooled = Corpus(senses(5).records, [v[0] for v in senses(5).values], {"layers": "top"})
    write(pooled._replace(attributes={"layers": "top", "pooling": "max"}), "pooled.hdf5")
    same = senses(5)._replace(values=[np.ones_like(v) for v in senses(5).values])
    write(same._replace(attributes={"layers": "word_emb"}), "same.hdf5")

    def refused(arguments: str, message: str) -> None:
        assert_fails(elmo("plot", *arguments.split()), message)
        assert not Path("x.svg").exists()

    refused(
        "bank few.hdf5 x.svg --method tsne",
        "'bank': 10 occurrences in few.hdf5, but a picture needs 30. --method pca needs 3.",
    )
    refused(
        "Bank few.hdf5 v.hdf5 x.svg",
        "'Bank': 0 occurrences in few.hdf5 and the other files, but a picture needs 3",
    )
    refused(
        "bank,banks few.hdf5 x.svg",
        "'bank,banks': 0 occurrences in few.hdf5, but a picture needs 3. Name one word. A "
        "target word of `elmo usages` has all its forms.",
    )
    refused(
        "river few.hdf5 x.svg --clusters 6",
        "'river': 5 occurrences in few.hdf5, but a picture needs 6",
    )
    refused(
        "bank pooled.hdf5 x.svg",
        "pooled.hdf5: the file has one vector per sentence (--pooling max). "
        "Use `elmo neighbours --sentence`, or embed without --pooling.",
    )
    gif = elmo("plot", "bank", "v.hdf5", "x.gif")
    assert_misused(gif, "x.gif: unknown suffix '.gif'. Choose .svg, .png, .pdf or .html.")
    refused("bank v.hdf5 bank.svg", "bank.svg: already exists. Use --overwrite to replace it.")
    refused(
        "bank same.hdf5 x.svg -q",
        "'bank': all occurrences have the same vector, as in layer 0",
    )
    assert_misused(
        elmo("plot", "bank", "x.svg"),
        "give WORD FILE... OUTPUT, as in `elmo plot bank old.hdf5 bank.svg`",
    )
