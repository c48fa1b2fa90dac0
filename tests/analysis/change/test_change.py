"""Measures of change against their formulas on planted data, and refused files."""

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

from elmo_cli import ElmoError, InputError, SettingsError
from elmo_cli.analysis.change.measure_change import Change, adjust_p, measure_change
from elmo_cli.analysis.change.occurrence_matrices import read_occurrences
from elmo_cli.analysis.occurrences.targets import read_targets
from elmo_cli.arrays import AnyArray
from elmo_cli.options.analysis import CORRECTIONS, MEASURES, Measure
from elmo_cli.outputs.comparison import check_same
from tests.support.commands import elmo
from tests.support.layouts import Corpus, layouts, line_record, write
from tests.support.table_files import NAMES, csv_rows, write_matrices, write_table


def cosine(one: AnyArray, other: AnyArray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def apd(old: AnyArray, new: AnyArray) -> float:
    """Return the mean cosine distance of all pairs."""
    distances = [1 - cosine(a, b) for a, b in itertools.product(old, new)]
    return float(np.mean(distances))


def prt(old: AnyArray, new: AnyArray) -> float:
    """Return the inverse cosine of the means."""
    return 1 / cosine(old.mean(axis=0), new.mean(axis=0))


def js_divergence(p: AnyArray, q: AnyArray) -> float:
    """Return the Jensen-Shannon divergence of two distributions, in nats."""
    middle = (p + q) / 2
    total = 0.0
    for distribution in (p, q):
        for share, mean_share in zip(distribution, middle, strict=True):
            if share > 0:
                total += share * np.log(share / mean_share)
    return total / 2


def matrix(n: int, seed: int = 0, *, centre: int = 0, width: int = 5) -> Any:
    """Return vectors of occurrences around one of the axes."""
    noise = np.random.default_rng(seed).normal(size=(n, width))
    return noise * 0.3 + 3 * np.eye(width)[centre]


@given(n_old=st.integers(3, 8), n_new=st.integers(3, 8), seed=st.integers(0, 99))
def test_distances_follow_the_formulas(n_old: int, n_new: int, seed: int) -> None:
    old = matrix(n_old, seed)
    new = matrix(n_new, seed + 1, centre=seed % 2).astype(np.float32)
    formulas: dict[Measure, Any] = {"apd": apd, "prt": prt}
    for measure, formula in formulas.items():
        expected: Any = pytest.approx(formula(old, new.astype(np.float64)), rel=1e-5)
        changes = measure_change({"w": old}, {"w": new}, measure)
        assert changes == [Change("w", expected, n_old, n_new)]


def test_divergence_equals_the_planted_senses() -> None:
    def senses(*sizes: int) -> AnyArray:
        groups = [matrix(n, i, centre=i) for i, n in enumerate(sizes)]
        return np.concatenate(groups)

    # Some vectors are in both.
    old = senses(9, 3, 0)
    new = senses(2, 6, 4)
    (change,) = measure_change({"w": old}, {"w": new}, "jsd")
    p = np.array([9, 3, 0]) / 12
    q = np.array([2, 6, 4]) / 12
    assert change.change == pytest.approx(js_divergence(p, q))


def test_divergence_is_zero_without_a_change() -> None:
    first_sense = matrix(9, 0)
    second_sense = matrix(3, 1, centre=1)
    old = np.concatenate([first_sense, second_sense])
    ones = np.ones((3, 5))
    more_ones = np.ones((4, 5))
    for one, other in ((old, old), (ones, more_ones)):
        (none,) = measure_change({"w": one}, {"w": other}, "jsd", permutations=5)
        assert none.change == pytest.approx(0, abs=1e-12)
        assert none.p == 1


@pytest.mark.parametrize("measure", MEASURES)
def test_a_changed_word_comes_first_with_a_small_p(measure: Measure) -> None:
    old = {
        "mouse": matrix(20, 1),
        "house": matrix(20, 2),
        "rare": matrix(2, 3),
    }
    new = {
        "house": matrix(30, 4),
        "mouse": np.concatenate([matrix(5, 5), matrix(25, 6, centre=1)]),
        "new": matrix(9, 7),
        "rare": matrix(9, 8),
    }
    changes = measure_change(old, new, measure, permutations=199)
    mouse, house, rare, unseen = changes
    assert mouse.word == "mouse"
    assert mouse.p == pytest.approx(1 / 200)
    assert house.word == "house"
    assert house.p is not None
    assert house.p > 0.05
    assert rare == Change("rare", None, n_old=2, n_new=9)
    assert unseen == Change("new", None, n_old=0, n_new=9)
    assert measure_change(old, new, measure, permutations=199) == changes

    for correction in CORRECTIONS:
        adjusted = measure_change(
            old, new, measure, permutations=199, correction=correction
        )
        assert [each._replace(adjusted_p=None) for each in adjusted] == changes
        adjusted_p = [each.adjusted_p for each in adjusted]
        assert adjusted_p == [pytest.approx(0.01), ANY, None, None]

    with pytest.raises(ElmoError, match="correction 'bh': requires permutations"):
        measure_change(old, new, correction="bh")
    with pytest.raises(
        ElmoError, match="correction: expected bh or bonferroni, found 'holm'"
    ):
        measure_change(old, new, permutations=9, correction="holm")  # type: ignore[arg-type]


def test_only_jsd_needs_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert measure_change({}, {}, "apd") == []
    with pytest.raises(ElmoError, match=r"^measure='jsd' needs "):
        measure_change({}, {}, "jsd")


def test_the_range_by_chance_is_that_of_random_divisions() -> None:
    old = matrix(12, seed=1)
    new = matrix(9, seed=2)
    together = np.concatenate([old, new])
    random = np.random.default_rng(5)
    changes = []
    for _ in range(1500):
        mixed = random.permutation(together)
        changes.append(apd(mixed[:12], mixed[12:]))
    (change,) = measure_change({"w": old}, {"w": new}, permutations=3000)
    expected = np.quantile(changes, [0.05, 0.95])
    spread = float(np.std(changes))
    assert change.by_chance == pytest.approx(tuple(expected), abs=0.15 * spread)
    moved = matrix(9, seed=2, centre=1)
    (change,) = measure_change({"w": old}, {"w": moved}, permutations=99)
    assert change.by_chance is not None
    assert change.change is not None
    assert change.change > change.by_chance[1]
    (change,) = measure_change({"w": old}, {"w": new})
    assert change.by_chance is None


def test_p_is_the_share_of_all_divisions() -> None:
    uses = matrix(7)
    old = uses[:3]
    new = uses[3:]
    n_as_large = 0
    divisions = list(itertools.combinations(range(7), 3))
    for division in divisions:
        one = uses[list(division)]
        other = np.delete(uses, division, axis=0)
        if apd(one, other) >= apd(old, new) - 1e-12:
            n_as_large += 1
    (change,) = measure_change({"w": old}, {"w": new}, permutations=3000)
    assert change.p == pytest.approx(n_as_large / len(divisions), abs=0.05)


def corpus(seed: int, **attributes: str) -> Corpus:
    """Return three lines with random vectors of layers 1 and 2, each (2, T, 4)."""
    random = np.random.default_rng(seed)
    records = []
    values = []
    for line in ("The bank lent", "banks and a bank", "no word here"):
        record = line_record(line)
        records.append(record)
        vectors = random.normal(size=(2, len(record.tokens), 4))
        values.append(vectors.astype(np.float32))
    return Corpus(records, values, {"layers": "1,2", **attributes})


@layouts
def test_occurrences_are_found_by_their_forms(tmp_path: Path, layout: str) -> None:
    old = tmp_path / "old.hdf5"
    new = tmp_path / "new.hdf5"
    write(corpus(0), old, layout)
    write(corpus(1), new, layout)
    (tmp_path / "t.txt").write_text("bank,banks\n\nfish\n")
    targets = read_targets(tmp_path / "t.txt")
    assert targets == {"bank": "bank", "banks": "bank", "fish": "fish"}
    for seed, matrices in enumerate(read_occurrences(old, new, targets)):
        one, two, _ = corpus(seed).values
        occurrences = [one[:, 1], two[:, 0], two[:, 3]]
        expected = np.mean(occurrences, axis=1)
        np.testing.assert_allclose(matrices["bank"], expected, atol=1e-6)
        assert len(matrices["fish"]) == 0


def test_forms_are_compared_in_every_case(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "old.hdf5"
    write(corpus(0), path, "packed")
    words = {"BANK": "bank", "bank": "bank", "Banks": "bank"}
    (found, _) = read_occurrences(path, path, words)
    assert len(found["bank"]) == 2
    (found, _) = read_occurrences(path, path, words, ignore_case=True)
    assert len(found["bank"]) == 3
    warning = (
        f"{path}: 1 occurrence in another case, such as 'banks', is not "
        "counted. Use ignore_case=True."
    )
    assert caplog.messages == [warning, warning]


def test_change_counts_the_forms_in_every_case_if_it_is_ignored(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old.hdf5"
    new = tmp_path / "new.hdf5"
    write(corpus(0), old, "packed")
    write(corpus(1), new, "packed")
    words = {"bank": "bank", "Banks": "bank"}
    changes = measure_change(old, new, words=words)
    assert changes == [Change("bank", None, n_old=2, n_new=2)]

    one, other = read_occurrences(old, new, words, ignore_case=True)
    change: Any = pytest.approx(apd(one["bank"], other["bank"]), rel=1e-5)
    changes = measure_change(old, new, words=words, ignore_case=True)
    assert changes == [Change("bank", change, n_old=3, n_new=3)]


@pytest.mark.parametrize("option", [{"match": "form"}, {"ignore_case": True}])
def test_vectors_that_were_read_have_no_options_of_the_reader(
    option: dict[str, Any],
) -> None:
    [name] = option
    message = f"^{name}: requires the paths of two files. Give it to read_occurrences."
    with pytest.raises(SettingsError, match=message):
        measure_change({"w": matrix(3)}, {"w": matrix(3)}, **option)


def assert_refused(first: str, second: str, message: str) -> None:
    """Assert that two files cannot be compared, for this reason."""
    with pytest.raises(ElmoError, match=message):
        read_occurrences(first, second, {"bank": "bank"})


@pytest.mark.usefixtures("folder")
def test_files_that_cannot_be_compared_are_refused() -> None:
    write(corpus(0, state="zero"), "old.hdf5")
    write(corpus(1, state="warm"), "new.hdf5")
    message = r"old\.hdf5 and new\.hdf5 cannot be read together: state"
    assert_refused("old.hdf5", "new.hdf5", message)
    write_matrices("m.parquet", {"bank": matrix(3)})
    write_matrices("narrow.parquet", {"bank": matrix(3, width=4)})
    message = r"the vectors have the widths 4 and 5\."
    assert_refused("m.parquet", "narrow.parquet", message)
    Path("text.parquet").write_text("text")
    message = r"text\.parquet: not a readable file of target words: "
    assert_refused("m.parquet", "text.parquet", message)
    message = r"old\.hdf5: contains the vectors of all tokens. Name"
    with pytest.raises(ElmoError, match=message):
        read_occurrences("old.hdf5", "old.hdf5")


def test_layers_may_be_named_for_a_file_that_does_not_name_them(
    tmp_path: Path,
) -> None:
    path = write_matrices(tmp_path / "m.parquet", {"bank": matrix(3)})
    old, new = read_occurrences(path, path, layers="1")
    np.testing.assert_array_equal(old["bank"], matrix(3))
    np.testing.assert_array_equal(new["bank"], matrix(3))


def test_targets_may_be_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",")
    assert read_targets(path) == {",": ","}
    path.write_text("word;form\nbe;is\n")
    assert read_targets(path) == {"be": "be", "is": "be"}
    path.write_text("a,b\n")
    with pytest.raises(ElmoError, match=r"no column 'word'. The columns are 'a', 'b'"):
        read_targets(path, "csv")
    message = r"t\.csv: expected a table with a column 'x', found text"
    with pytest.raises(ElmoError, match=message):
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
def test_adjusted_p_matches_scipy(p: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.false_discovery_control(p) if p else []
    np.testing.assert_allclose(adjust_p(p, "bh"), expected, atol=1e-12)
    expected = [min(1, len(p) * each) for each in p]
    np.testing.assert_allclose(adjust_p(p, "bonferroni"), expected)


@pytest.mark.usefixtures("folder")
def test_the_command_prints_a_table_and_what_it_skips() -> None:
    old = matrix(4)
    new = matrix(5, 1, centre=1)
    write_matrices("old.parquet", {"mouse": old, "house": old, "rare": matrix(1)})
    words = {"mouse": new, "house": new, "rare": matrix(9), "fish": matrix(3)}
    write_matrices("new.parquet", words)
    command = "change old.parquet new.parquet --correction bonferroni --permutations"
    result = elmo(*command.split(), "9")
    figures = f"{apd(old, new):.6f}\t4\t5\t0.100000\t0.200000"
    header = "word\tchange\tn_old\tn_new\tp\tadjusted_p"
    assert result.stdout == f"{header}\nmouse\t{figures}\nhouse\t{figures}\n"
    assert sorted(result.stderr.splitlines()) == [
        "Skipped fish: 0 occurrences in OLD and 3 in NEW. Each needs 3.",
        "Skipped rare: 1 occurrence in OLD and 9 in NEW. Each needs 3.",
        "Warning: with 9 permutations of 2 words, the adjusted p of a single changed "
        "word is at least 0.2. Use --permutations 40 or more.",
    ]
    assert "Warning" not in elmo(*command.split(), "40").stderr


@pytest.mark.usefixtures("folder")
def test_a_picture_without_words_is_an_error_and_a_table_is_none() -> None:
    pytest.importorskip("matplotlib")
    write_matrices("rare.parquet", {"rare": matrix(2)})
    write_matrices("new.parquet", {"rare": matrix(3)})
    result = elmo("change", "rare.parquet", "new.parquet")
    assert result.exit_code == 0
    assert result.stdout == "word\tchange\tn_old\tn_new\n"
    with_p = elmo("change", "rare.parquet", "new.parquet", "--permutations", "9")
    assert with_p.stdout == "word\tchange\tn_old\tn_new\tp\n"
    with_picture = elmo("change", "rare.parquet", "new.parquet", "--plot", "c.svg")
    assert with_picture.exit_code == 1
    assert with_picture.stdout == result.stdout
    assert with_picture.stderr == (
        f"{result.stderr}Error: c.svg: no word has enough occurrences to draw its "
        "change\n"
    )


@pytest.mark.usefixtures("folder")
def test_the_command_prints_json_lines() -> None:
    old = matrix(4)
    new = matrix(5, 1, centre=1)
    write_matrices("old.parquet", {"mouse": old, "house": old})
    write_matrices("new.parquet", {"mouse": new, "house": new})
    Path("mouse.txt").write_text("mouse\n")
    command = "change old.parquet new.parquet --measure prt --json --words mouse.txt"
    result = elmo(*command.split())
    assert json.loads(result.stdout) == {
        "word": "mouse",
        "n_old": 4,
        "n_new": 5,
        "change": pytest.approx(prt(old, new)),
    }


@pytest.mark.usefixtures("folder")
def test_the_command_quotes_words_in_csv() -> None:
    write_matrices("v.parquet", {'a,"b"': matrix(4)})
    result = elmo("change", "v.parquet", "v.parquet", "--format", "csv")
    [row] = csv_rows(result.stdout)
    assert row["word"] == 'a,"b"'
    assert row["n_old"] == "4"
    assert row["n_new"] == "4"


def test_the_last_layer_of_a_model_has_several_names() -> None:
    options = json.dumps({"lstm": {"n_layers": 2}})
    attributes = {"model_sha256": "a", "options": options}
    top = {**attributes, "layers": "top"}
    for name in ("2", "lstm2", "top"):
        check_same([("old", top), ("new", {**attributes, "layers": name})], ["layers"])
    message = r"Write new again with layers='top'\.$"
    with pytest.raises(InputError, match=message):
        check_same([("old", top), ("new", {**attributes, "layers": "1"})], ["layers"])
