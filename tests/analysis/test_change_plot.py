"""Pictures of lists of changes, read back from SVG."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import assert_fails, assert_misused, elmo

from elmo_cli import ElmoError, plot_changes
from elmo_cli.analysis import pictures as change_plot
from elmo_cli.analysis.change import Change

pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')

SVG = "{http://www.w3.org/2000/svg}"
CHANGES = [
    Change("mouse", 0.5, 9, 1200, 0.001, 0.003),
    Change("<house>", 0.3, 8, 9, 0.03, 0.06),
    Change("tree", 0.2, 8, 9, 0.5, 0.5),
    Change("rare", None, 1, 9),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def texts(path: str) -> list[str]:
    return [text.text or "" for text in ElementTree.parse(path).iter(f"{SVG}text")]


def tooltips(path: str) -> list[list[str]]:
    """Return the tooltips of each group of points."""
    groups = [
        group
        for group in ElementTree.parse(path).iter(f"{SVG}g")
        if group.get("id", "").startswith("points-")
    ]
    return [[title.text or "" for title in group.iter(f"{SVG}title")] for group in groups]


def test_each_word_is_a_point_with_its_figures() -> None:
    assert plot_changes(CHANGES, "c.svg") == 3
    assert tooltips("c.svg") == [
        ["mouse: 0.5000, 9 old and 1,200 new, p 0.0010, adjusted p 0.0030"],
        [
            "<house>: 0.3000, 8 old and 9 new, p 0.0300, adjusted p 0.0600",
            "tree: 0.2000, 8 old and 9 new, p 0.5000, adjusted p 0.5000",
        ],
    ]
    assert {"mouse", "<house>", "tree", "Change of 3 words", "adjusted p < 0.05"} <= {
        *texts("c.svg")
    }
    assert "rare" not in texts("c.svg")


def test_changes_without_p_have_no_legend() -> None:
    plot_changes([change._replace(p=None, adjusted_p=None) for change in CHANGES], "c.svg", "jsd")
    assert [len(group) for group in tooltips("c.svg")] == [3]
    assert not any("p <" in text for text in texts("c.svg"))
    assert "Jensen-Shannon divergence over clusters, in nats" in texts("c.svg")


def test_only_the_largest_changes_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_plot, "MAX_WORDS", 2)
    assert plot_changes([Change("inf", float("inf"), 3, 3), *CHANGES], "c.svg") == 2
    assert "Change of 3 words, the 2 with the largest changes" in texts("c.svg")
    assert not {"tree", "inf"} & set(texts("c.svg"))


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html"])
def test_equal_lists_give_equal_files(suffix: str) -> None:
    for name in ("1", "2"):
        plot_changes(CHANGES, name + suffix)
    assert Path(f"1{suffix}").read_bytes() == Path(f"2{suffix}").read_bytes()


def test_a_list_without_changes_is_refused() -> None:
    with pytest.raises(ElmoError, match=r"^c\.svg: no word has enough occurrences"):
        plot_changes(CHANGES[3:], "c.svg")


def test_the_command_draws_its_list() -> None:
    random = np.random.default_rng(0)
    for name in ("old.npz", "new.npz"):
        np.savez(name, mouse=random.normal(size=(5, 4)), house=random.normal(size=(5, 4)))
    command = ("change", "old.npz", "new.npz", "--plot", "c.svg")
    result = elmo(*command)
    assert (result.exit_code, result.stderr) == (0, "Wrote c.svg: 2 words\n")
    assert len(result.stdout.splitlines()) == 3
    assert_fails(elmo(*command), "c.svg: already exists. Use --overwrite to replace it.")
    assert elmo(*command, "--overwrite").exit_code == 0
    wrong = elmo("change", "old.npz", "new.npz", "--plot", "c.gif")
    assert_misused(wrong, "c.gif: unknown suffix '.gif'. Choose .svg, .png, .pdf or .html.")
