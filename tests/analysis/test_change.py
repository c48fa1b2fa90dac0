"""Measures of change against their formulas, on planted data; what is read, and what is refused."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmo_cli import ElmoError
from elmo_cli.analysis.change import Change, adjust_p, measure_change
from elmo_cli.analysis.occurrence_matrices import read_occurrences
from elmo_cli.analysis.targets import read_targets
from elmo_cli.options.analysis import MEASURES
from tests.support.commands import elmo
from tests.support.layouts import Corpus, layouts, line_record, write
from tests.support.table_files import NAMES, csv_rows, write_matrices, write_table

Array = NDArray[Any]


def apd(old: Array, new: Array) -> float:
    pairs = itertools.product(old, new)
    return float(
        np.mean([1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])
    )


def prt(old: Array, new: Array) -> float:
    a = old.mean(axis=0)
    b = new.mean(axis=0)
    return float(np.linalg.norm(a) * np.linalg.norm(b) / (a @ b))


def matrix(n: int, seed: int = 0, *, centre: int = 0, width: int = 5) -> Any:
    """Return vectors of occurrences around one of the axes."""
    noise = np.random.default_rng(seed).normal(size=(n, width))
    return noise * 0.3 + 3 * np.eye(width)[centre]


@given(n_old=st.integers(3, 8), n_new=st.integers(3, 8), seed=st.integers(0, 99))
def test_distances_follow_the_formulas(n_old: int, n_new: int, seed: int) -> None:
    old = matrix(n_old, seed)
    new = matrix(n_new, seed + 1, centre=seed % 2).astype(np.float32)
    for measure, formula in (("apd", apd), ("prt", prt)):
        expected: Any = pytest.approx(formula(old, new.astype(np.float64)), rel=1e-5)
        changes = measure_change({"w": old}, {"w": new}, measure)
        assert changes == [Change("w", expected, n_old, n_new)]


def test_divergence_equals_the_planted_senses() -> None:
    def senses(*sizes: int) -> Array:
        return np.concatenate([matrix(n, i, centre=i) for i, n in enumerate(sizes)])

    old = senses(9, 3, 0)
    new = senses(2, 6, 4)  # the same vectors twice too
    (change,) = measure_change({"w": old}, {"w": new}, "jsd")
    p = np.array([9, 3, 0]) / 12
    q = np.array([2, 6, 4]) / 12
    terms = [
        x * np.log(2 * x / (a + b))
        for a, b in zip(p, q, strict=True)
        for x in (a, b)
        if x
    ]
    assert change.change == pytest.approx(sum(terms) / 2)
    for one, other in ((old, old), (np.ones((3, 5)), np.ones((4, 5)))):
        (none,) = measure_change({"w": one}, {"w": other}, "jsd", permutations=5)
        assert none.change == pytest.approx(0, abs=1e-12)
        assert none.p == 1


@pytest.mark.parametrize("measure", MEASURES)
def test_a_changed_word_comes_first_with_a_small_p(measure: str) -> None:
    old = {"mouse": matrix(20, 1), "house": matrix(20, 2), "rare": matrix(2, 3)}
    mouse = np.concatenate([matrix(5, 5), matrix(25, 6, centre=1)])
    new = {
        "house": matrix(30, 4),
        "mouse": mouse,
        "new": matrix(9, 7),
        "rare": matrix(9, 8),
    }
    changes = measure_change(old, new, measure, permutations=199)
    assert [change.word for change in changes] == ["mouse", "house", "rare", "new"]
    assert changes[0].p == pytest.approx(1 / 200)
    assert (changes[1].p or 0) > 0.05
    assert changes[2:] == [Change("rare", None, 2, 9), Change("new", None, 0, 9)]
    assert changes == measure_change(old, new, measure, permutations=199)
    for correction in ("bh", "bonferroni"):
        adjusted = measure_change(
            old, new, measure, permutations=199, correction=correction
        )
        assert [each._replace(adjusted_p=None) for each in adjusted] == changes
        assert [each.adjusted_p for each in adjusted] == [
            pytest.approx(0.01),
            ANY,
            None,
            None,
        ]
    with pytest.raises(ElmoError, match="correction 'bh': requires permutations"):
        measure_change(old, new, correction="bh")
    with pytest.raises(ElmoError, match="correction 'holm': expected bh or bonferroni"):
        measure_change(old, new, permutations=9, correction="holm")


def test_only_jsd_needs_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert measure_change({}, {}, "apd") == []
    with pytest.raises(ElmoError, match=r"^measure jsd needs "):
        measure_change({}, {}, "jsd")


def test_p_is_the_share_of_all_divisions() -> None:
    uses = matrix(7, 0)
    divisions = itertools.combinations(range(7), 3)
    others = [apd(uses[list(d)], np.delete(uses, d, axis=0)) for d in divisions]
    exact = np.mean(np.array(others) >= others[0] - 1e-12)
    (change,) = measure_change({"w": uses[:3]}, {"w": uses[3:]}, permutations=3000)
    assert change.p == pytest.approx(exact, abs=0.05)


def corpus(seed: int, **attributes: str) -> Corpus:
    random = np.random.default_rng(seed)
    records = [*map(line_record, ["The bank lent", "banks and a bank", "no word here"])]
    values = [
        random.normal(size=(2, len(r.tokens), 4)).astype(np.float32) for r in records
    ]
    return Corpus(records, values, {"layers": "1,2", **attributes})


@layouts
def test_occurrences_are_found_by_their_forms(tmp_path: Path, layout: str) -> None:
    old = tmp_path / "old.hdf5"
    new = tmp_path / "new.hdf5"
    for seed, path in enumerate((old, new)):
        write(corpus(seed), path, layout)
    (tmp_path / "t.txt").write_text("bank,banks\n\nfish\n")
    targets = read_targets(tmp_path / "t.txt")
    assert targets == {"bank": "bank", "banks": "bank", "fish": "fish"}
    for seed, matrices in enumerate(read_occurrences(old, new, targets)):
        one, two, _ = corpus(seed).values
        expected = [one[:, 1], two[:, 0], two[:, 3]]
        np.testing.assert_allclose(
            matrices["bank"], np.mean(expected, axis=1), atol=1e-6
        )
        assert len(matrices["fish"]) == 0


def test_forms_are_compared_in_every_case(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "old.hdf5"
    write(corpus(0), path, "packed")
    words = {"BANK": "bank", "bank": "bank", "Banks": "bank"}
    for ignore_case, n_found in ((False, 2), (True, 3)):
        (found, _) = read_occurrences(path, path, words, ignore_case=ignore_case)
        assert len(found["bank"]) == n_found
    warning = "1 occurrence in another case, such as 'banks', is not counted. Use ignore_case=True."
    assert [record.getMessage() for record in caplog.records] == [
        f"Warning: {path}: {warning}"
    ] * 2


@pytest.mark.usefixtures("folder")
def test_files_that_do_not_fit_are_refused() -> None:
    write(corpus(0, state="zero"), "old.hdf5")
    write(corpus(1, state="warm"), "new.hdf5")
    Path("text.parquet").write_text("text")
    write_matrices("m.parquet", {"bank": matrix(3)})
    write_matrices("narrow.parquet", {"bank": matrix(3, width=4)})
    for first, second, layers, message in (
        (
            "old.hdf5",
            "new.hdf5",
            None,
            r"old\.hdf5 and new\.hdf5 cannot be read together: state",
        ),
        ("m.parquet", "narrow.parquet", None, r"the vectors have the widths 4 and 5\."),
        (
            "m.parquet",
            "text.parquet",
            None,
            r"text\.parquet: not a readable file of target words: ",
        ),
        (
            "m.parquet",
            "m.parquet",
            "1",
            r"layers '1': m\.parquet has one vector per occurrence\.",
        ),
    ):
        with pytest.raises(ElmoError, match=message):
            read_occurrences(first, second, {"bank": "bank"}, layers=layers)
    with pytest.raises(
        ElmoError, match=r"old\.hdf5 contains the vectors of all tokens. Name"
    ):
        read_occurrences("old.hdf5", "old.hdf5")


def test_targets_may_be_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for text, expected in (
        (",", {",": ","}),
        ("word;form\nbe;is\n", {"be": "be", "is": "be"}),
    ):
        path.write_text(text)
        assert read_targets(path) == expected
    path.write_text("a,b\n")
    with pytest.raises(ElmoError, match=r"no column 'word'. The columns are 'a', 'b'"):
        read_targets(path, "csv")
    with pytest.raises(
        ElmoError, match=r"t\.csv: expected a table with a column 'x', found text"
    ):
        read_targets(path, "text", "x")
    rows = [
        {"word": "bank", "form": "banks", "n": "1"},
        {"word": ",", "form": ",", "n": "2"},
    ]
    for suffix in NAMES:
        table = write_table(tmp_path / f"t.{suffix}", rows)
        assert read_targets(table) == {"bank": "bank", "banks": "bank", ",": ","}
        assert read_targets(table, column="n").keys() == {"1", "2", "banks", ","}


@given(p=st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_p_equal_scipys(p: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.false_discovery_control(p) if p else []
    np.testing.assert_allclose(adjust_p(p, "bh"), expected, atol=1e-12)
    np.testing.assert_allclose(
        adjust_p(p, "bonferroni"), [min(1, len(p) * each) for each in p]
    )


@pytest.mark.usefixtures("folder")
def test_the_command() -> None:
    old = matrix(4)
    new = matrix(5, 1, centre=1)
    write_matrices("old.parquet", {"mouse": old, "house": old, "rare": matrix(1)})
    words = {"mouse": new, "house": new, "rare": matrix(9), "fish": matrix(3)}
    write_matrices("new.parquet", words)
    command = ("change", "old.parquet", "new.parquet")
    corrected = ("--correction", "bonferroni")
    result = elmo(*command, "--permutations", "9", *corrected)
    figures = f"{apd(old, new):.6f}\t4\t5\t0.100000\t0.200000"
    header = "word\tchange\tn_old\tn_new\tp\tadjusted_p"
    assert result.stdout == f"{header}\nmouse\t{figures}\nhouse\t{figures}\n"
    assert sorted(result.stderr.splitlines()) == [
        "Skipped fish: 0 occurrences in OLD and 3 in NEW. Each needs 3.",
        "Skipped rare: 1 occurrence in OLD and 9 in NEW. Each needs 3.",
        "Warning: with 9 permutations of 2 words, the adjusted p of a single changed word is at "
        "least 0.2. Use --permutations 40 or more.",
    ]
    assert "Warning" not in elmo(*command, "--permutations", "40", *corrected).stderr
    Path("mouse.txt").write_text("mouse\n")
    answer = elmo(*command, "--measure", "prt", "--json", "--words", "mouse.txt")
    expected = {"word": "mouse", "measure": "prt", "n_old": 4, "n_new": 5}
    assert json.loads(answer.stdout) == {
        **expected,
        "change": pytest.approx(prt(old, new)),
    }
    write_matrices("v.parquet", {'a,"b"': matrix(4)})
    [row] = csv_rows(elmo("change", "v.parquet", "v.parquet", "--format", "csv").stdout)
    assert (row["word"], row["n_old"], row["n_new"]) == ('a,"b"', "4", "4")
