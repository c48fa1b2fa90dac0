"""Pictures of surprisals, read back from SVG."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from elmo_cli.analysis import pictures as surprisal_plot
from elmo_cli.analysis.pictures import Measured, plot_surprisals
from elmo_cli.errors import InputError, OutputError
from elmo_cli.language_model.surprisal import UnitSurprisal
from elmo_cli.text.records import Record

pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')

SVG = "{http://www.w3.org/2000/svg}"


def sentence_of(identifier: str | None, *words: tuple[str, list[float], bool]) -> Measured:
    units = [
        UnitSurprisal(number, text, 1, int(not known), bits, [], None)
        for number, (text, bits, known) in enumerate(words)
    ]
    return Measured((identifier or 7,), Record("", [], identifier), units)


GARDEN_PATH = sentence_of(
    "mv1", ("The", [2.0], True), ("<horse>", [8.25], False), ("fell.", [19.0], True)
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def texts(path: str) -> list[str]:
    return [text.text or "" for text in ElementTree.parse(path).iter(f"{SVG}text")]


def tooltips(path: str) -> list[str]:
    """Return the tooltips of the bars."""
    return [
        title.text or ""
        for group in ElementTree.parse(path).iter(f"{SVG}g")
        if group.get("id", "").startswith("bars-")
        for title in group.iter(f"{SVG}title")
    ]


def test_each_word_is_a_bar_with_its_figures() -> None:
    assert plot_surprisals([GARDEN_PATH, sentence_of(None), sentence_of(None)], "s.svg") == 1
    assert tooltips("s.svg") == [
        "The: 2.00 bits forward",
        "<horse>: 8.25 bits forward, unknown",
        "fell.: 19.00 bits forward",
    ]
    expected = {"mv1", "The", "<horse>", "fell.", "bits", "hatched: not in the vocabulary"}
    assert expected <= {*texts("s.svg")}


def test_both_directions_are_bars_next_to_each_other() -> None:
    words = [("a" * 20, [1.0, 2.0], True), ("b", [3.0, 4.0], True)]
    assert plot_surprisals([sentence_of(None, *words)] * 2, "s.html", "both") == 2
    page = Path("s.html").read_text(encoding="utf-8")
    assert "<title>Surprisal of 2 sentences</title>" in page
    Path("s.svg").write_text(page[page.index("<svg") : page.index("</html>")], encoding="utf-8")
    one = [f"{'a' * 20}: 1.00 bits forward", "b: 3.00 bits forward"]
    other = [f"{'a' * 20}: 2.00 bits backward", "b: 4.00 bits backward"]
    assert tooltips("s.svg") == [*one, *other] * 2
    assert {"sentence 7", f"{'a' * 13}…", "forward", "backward"} <= {*texts("s.svg")}
    assert "hatched: not in the vocabulary" not in texts("s.svg")


def test_equal_surprisals_give_equal_files() -> None:
    for name in ("a.svg", "b.svg"):
        plot_surprisals([GARDEN_PATH] * 2, name)
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_sentences_after_the_maximum_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surprisal_plot, "MAX_SENTENCES", 2)
    assert plot_surprisals([GARDEN_PATH] * 3, "s.pdf") == 2


def test_a_picture_that_cannot_be_drawn_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^s\.svg: no sentence has tokens to draw"):
        plot_surprisals([sentence_of(None)], "s.svg")
    with pytest.raises(OutputError, match=r"^s\.txt: unknown suffix '\.txt'"):
        plot_surprisals([GARDEN_PATH], "s.txt")
