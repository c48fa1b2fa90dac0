"""Measures of change against their formulas, on planted data; what is read, and what is refused."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st
from layouts import Corpus, layouts, line_record, write
from numpy.typing import NDArray

from elmo_cli import ElmoError
from elmo_cli.analysis.change import Change, adjust_p, measure_change, read_occurrences
from elmo_cli.analysis.targets import read_targets

Array = NDArray[Any]


def apd(old: Array, new: Array) -> float:
    pairs = itertools.product(old, new)
    return float(np.mean([1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))


def prt(old: Array, new: Array) -> float:
    a, b = old.mean(axis=0), new.mean(axis=0)
    return float(np.linalg.norm(a) * np.linalg.norm(b) / (a @ b))


def jsd(p: Array, q: Array) -> float:
    mean = (p + q) / 2
    terms = [x * np.log(x / m) for s in (p, q) for x, m in zip(s, mean, strict=True) if x]
    return float(np.sum(terms) / 2)


def matrix(n: int, seed: int = 0, *, centre: int = 0, width: int = 5, spread: float = 0.3) -> Array:
    """Return vectors of occurrences around one of the axes."""
    random = np.random.default_rng(seed)
    uses: Array = random.normal(size=(n, width)) * spread + 3 * np.eye(width)[centre]
    return uses


@given(n_old=st.integers(3, 8), n_new=st.integers(3, 8), seed=st.integers(0, 99))
def test_distances_follow_the_formulas(n_old: int, n_new: int, seed: int) -> None:
    old = matrix(n_old, seed)
    new = matrix(n_new, seed + 1, centre=seed % 2).astype(np.float32)
    for measure, formula in (("apd", apd), ("prt", prt)):
        (change,) = measure_change({"w": old}, {"w": new}, measure)
        assert change.change == pytest.approx(formula(old, new.astype(np.float64)), rel=1e-5)
        assert (change.word, change.n_old, change.n_new, change.p) == ("w", n_old, n_new, None)


def test_divergence_equals_the_planted_senses() -> None:
    def senses(*sizes: int) -> Array:
        planted = [matrix(n, i, centre=i, spread=0.3) for i, n in enumerate(sizes)]
        return np.concatenate(planted)

    old, new = senses(9, 3, 0), senses(2, 6, 4)  # the same vectors twice too
    (change,) = measure_change({"w": old}, {"w": new}, "jsd")
    shares = np.array([9, 3, 0]) / 12, np.array([2, 6, 4]) / 12
    assert change.change == pytest.approx(jsd(*shares))
    for one, other in ((old, old), (np.ones((3, 5)), np.ones((4, 5)))):
        (none,) = measure_change({"w": one}, {"w": other}, "jsd", permutations=5)
        assert none.change == pytest.approx(0, abs=1e-12)
        assert none.p == 1


@pytest.mark.parametrize("measure", ["apd", "prt", "jsd"])
def test_a_changed_word_comes_first_with_a_small_p(measure: str) -> None:
    old = {"mouse": matrix(20, 1), "house": matrix(20, 2), "rare": matrix(2, 3)}
    new = {
        "house": matrix(30, 4),
        "mouse": np.concatenate([matrix(5, 5), matrix(25, 6, centre=1)]),
        "new": matrix(9, 7),
        "rare": matrix(9, 8),
    }
    changes = measure_change(old, new, measure, permutations=199)
    assert [change.word for change in changes] == ["mouse", "house", "rare", "new"]
    mouse, house, rare, absent = changes
    assert mouse.p == pytest.approx(1 / 200)
    assert house.p is not None
    assert house.p > 0.05
    assert rare == Change("rare", None, 2, 9)
    assert absent == Change("new", None, 0, 9)
    assert changes == measure_change(old, new, measure, permutations=199)


def test_p_is_the_share_of_all_divisions() -> None:
    uses = matrix(7, 0)
    divisions = list(itertools.combinations(range(7), 3))
    others = [apd(uses[list(d)], np.delete(uses, d, axis=0)) for d in divisions]
    exact = np.mean(np.array(others) >= others[0] - 1e-12)
    (change,) = measure_change({"w": uses[:3]}, {"w": uses[3:]}, permutations=3000)
    assert change.p == pytest.approx(exact, abs=0.05)


def corpus(seed: int, **attributes: str) -> Corpus:
    random = np.random.default_rng(seed)
    texts = ["The bank lent", "banks and a bank", "no word here"]
    values = [random.normal(size=(2, len(text.split()), 4)).astype(np.float32) for text in texts]
    return Corpus(list(map(line_record, texts)), values, {"layers": "1,2", **attributes})


@layouts
def test_occurrences_are_found_by_their_forms(tmp_path: Path, layout: str) -> None:
    old, new = tmp_path / "old.hdf5", tmp_path / "new.hdf5"
    for seed, path in enumerate((old, new)):
        write(corpus(seed), path, layout)
    (tmp_path / "t.txt").write_text("bank,banks\n\nfish\n")
    targets = read_targets(tmp_path / "t.txt")
    assert targets == {"bank": "bank", "banks": "bank", "fish": "fish"}
    uses = read_occurrences(old, new, targets)
    for seed, matrices in enumerate(uses):
        one, two, _ = corpus(seed).values
        expected = [one[:, 1], two[:, 0], two[:, 3]]
        np.testing.assert_allclose(matrices["bank"], np.mean(expected, axis=1), atol=1e-6)
        assert len(matrices["fish"]) == 0


def test_forms_are_compared_in_every_case(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "old.hdf5"
    write(corpus(0), path, "packed")
    words = {"BANK": "bank", "bank": "bank", "Banks": "bank"}
    (one, _), (both, _) = (
        read_occurrences(path, path, words, ignore_case=ignored) for ignored in (False, True)
    )
    assert (len(one["bank"]), len(both["bank"])) == (2, 3)
    warning = "1 occurrence in another case, such as 'banks', is not counted. Use --ignore-case."
    assert [record.getMessage() for record in caplog.records] == [f"Warning: {path}: {warning}"] * 2


def test_npz_with_one_matrix_per_word_is_read(tmp_path: Path) -> None:
    old, new = tmp_path / "old.npz", tmp_path / "new.npz"
    np.savez(old, mouse=matrix(4), house=matrix(5))
    np.savez_compressed(new, mouse=matrix(3, 1), other=np.zeros((0, 5)))
    uses = read_occurrences(old, new)
    assert [{word: len(m) for word, m in matrices.items()} for matrices in uses] == [
        {"mouse": 4, "house": 5},
        {"mouse": 3, "other": 0},
    ]
    assert set(read_occurrences(old, new, {"mouse": "mouse"})[0]) == {"mouse"}


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    words = {"bank": "bank"}
    names = ("old.hdf5", "new.hdf5", "m.npz", "other.npz", "all.npz", "no.npz", "text.npz")
    old, new, npz, other, all_layers, missing, text = (tmp_path / name for name in names)
    write(corpus(0, state="zero"), old)
    write(corpus(1, state="warm"), new)
    np.savez(npz, bank=matrix(3))
    np.savez(other, bank=matrix(3, width=4))
    np.savez(all_layers, bank=np.zeros((3, 2, 4)))
    text.write_text("no npz")
    lines = tmp_path / "lines.npz"
    by_line: dict[str, Any] = {"0": matrix(3), "1": matrix(4)}
    np.savez(lines, **by_line)
    embed = ["embed", "-", str(tmp_path / "keys.npz"), "--layers", "top", "--tokenizer", "moses"]
    assert elmo(*embed, stdin="a b\n").exit_code == 0
    cases: list[tuple[Path, Path, dict[str, Any], str]] = [
        (
            old,
            new,
            {},
            r"old\.hdf5 and .*new\.hdf5 cannot be read together: --state",
        ),
        (npz, other, {}, r"the vectors have the widths 4 and 5\."),
        (npz, all_layers, {}, r"all\.npz: expected one matrix per word .* shape \(3, 2, 4\)"),
        (npz, missing, {}, r"no\.npz: no such file"),
        (
            npz,
            lines,
            {},
            r"^\S+lines\.npz: expected one matrix per word, found one per line\. `elmo usages",
        ),
        (npz, tmp_path / "keys.npz", {}, r"keys\.npz: expected one matrix per word, found one per"),
        (npz, text, {}, r"text\.npz: not a readable file of target words: "),
        (npz, npz, {"layers": "1"}, r"m\.npz: layers '1': the file has one vector per occurrence"),
    ]
    for first, second, options, message in cases:
        with pytest.raises(ElmoError, match=message):
            read_occurrences(first, second, words, **options)
    with pytest.raises(ElmoError, match=r"old\.hdf5 contains the vectors of all tokens. Name"):
        read_occurrences(old, old)


def test_contradicting_or_missing_targets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("bank,banks\nbanks\n")
    with pytest.raises(ElmoError, match=r"t\.txt, line 2: 'banks' is a form of 'bank' already"):
        read_targets(path)
    path.write_text("\n\n")
    with pytest.raises(ElmoError, match=r"t\.txt: no words\. Write one word per line"):
        read_targets(path)
    path.write_text(",\n")
    assert read_targets(path) == {",": ","}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_targets_may_be_in_a_table(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    rows = [{"word": "bank", "form": "banks", "n": 1}, {"word": ",", "form": ",", "n": 2}]
    if suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.Table.from_pylist(rows)
        __import__("pyarrow.parquet").parquet.write_table(table, path)
    elif suffix.startswith("json"):
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]")
    else:
        tab = "," if suffix == "csv" else "\t"
        path.write_text('word_form_n\nbank_banks_1\n","_","_2\n'.replace("_", tab))
    assert read_targets(path) == {"bank": "bank", "banks": "bank", ",": ","}
    assert read_targets(path, column="n" if suffix in ("csv", "tsv") else "form").keys() <= {
        *("1", "2", "banks", ",")
    }


def test_a_column_of_targets_needs_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("bank,banks\n")
    assert read_targets(path) == {"bank": "bank", "banks": "bank"}
    with pytest.raises(ElmoError, match=r"no column 'word'. The columns are 'bank', 'banks'"):
        read_targets(path, "csv")
    with pytest.raises(ElmoError, match=r"t\.csv: expected a table with a column 'x', found text"):
        read_targets(path, "text", "x")


@given(p=st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_p_equal_scipys(p: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.false_discovery_control(p) if p else []
    np.testing.assert_allclose(adjust_p(p, "bh"), expected, atol=1e-12)
    np.testing.assert_allclose(adjust_p(p, "bonferroni"), [min(1, len(p) * each) for each in p])


def test_correction_skips_words_without_p() -> None:
    old = {"mouse": matrix(20, 1), "house": matrix(20, 2), "rare": matrix(2, 3)}
    new = {"mouse": matrix(20, 4, centre=1), "house": matrix(20, 5), "rare": matrix(9, 6)}
    plain = measure_change(old, new, permutations=99)
    for correction in ("bh", "bonferroni"):
        changes = measure_change(old, new, permutations=99, correction=correction)
        assert [each._replace(adjusted_p=None) for each in changes] == plain
        assert changes[0].adjusted_p == pytest.approx(0.02)
        assert changes[2].adjusted_p is None
    with pytest.raises(ElmoError, match="correction 'bh': requires permutations"):
        measure_change(old, new, correction="bh")
    with pytest.raises(ElmoError, match="correction 'holm': expected bh or bonferroni"):
        measure_change(old, new, permutations=9, correction="holm")


def test_the_command_adjusts_p_and_warns_of_few_permutations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = ({"mouse": matrix(9, n), "house": matrix(9, n + 2)} for n in (0, 1))
    new["mouse"] = matrix(9, 9, centre=1)
    for name, uses in (("old.npz", old), ("new.npz", new)):
        np.savez(name, **{word: uses[word] for word in uses})  # type: ignore[arg-type]
    command = ("change", "old.npz", "new.npz", "--correction", "bonferroni", "--permutations")
    result = elmo(*command, "9")
    assert result.stdout.splitlines()[0] == "word\tchange\tn_old\tn_new\tp\tadjusted_p"
    assert result.stdout.splitlines()[1].split("\t")[4:] == ["0.100000", "0.200000"]
    assert result.stderr == (
        "Warning: with 9 permutations of 2 words, the adjusted p of a single changed word is at "
        "least 0.2. Use --permutations 40 or more.\n"
    )
    assert elmo(*command, "40").stderr == ""
    assert_misused(
        elmo("change", "old.npz", "new.npz", "--correction", "bh"),
        "--correction requires --permutations",
    )


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = matrix(4), matrix(5, 1, centre=1)
    np.savez("old.npz", mouse=old, rare=matrix(1))
    np.savez("new.npz", mouse=new, rare=matrix(9))
    result = elmo("change", "old.npz", "new.npz", "--permutations", "99")
    assert (result.exit_code, result.stderr) == (
        0,
        "Skipped rare: 1 occurrence in OLD and 9 in NEW. Each needs 3.\n",
    )
    assert result.stdout == (
        f"word\tchange\tn_old\tn_new\tp\nmouse\t{apd(old, new):.6f}\t4\t5\t0.010000\n"
    )
    answer = elmo("change", "old.npz", "new.npz", "--measure", "prt", "--json")
    change = json.loads(answer.stdout)
    expected = {"word": "mouse", "measure": "prt", "n_old": 4, "n_new": 5}
    assert {**change, "change": 0} == {**expected, "change": 0}
    assert change["change"] == pytest.approx(prt(old, new))
