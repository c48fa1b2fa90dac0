"""Minimal pairs in both forms, compared with the slow reference."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import WORDS, make_language_model, small_architecture

from elmo_cli import LanguageModel
from elmo_cli.errors import InputError
from elmo_cli.language_model.pairs import Accuracy, Pair, PairTable, pair_columns
from elmo_cli.language_model.surprisal import Direction
from elmo_cli.settings import TextSettings
from elmo_cli.text.records import Record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), 5, folder)
    return folder


def measure(
    folder: Path,
    columns: tuple[str, ...],
    records: Sequence[Record],
    direction: Direction = "both",
    *,
    settings: TextSettings | None = None,
    group: str | None = None,
) -> list[Pair]:
    table = PairTable(columns, settings or TextSettings(), group)
    model = LanguageModel(model=folder)
    return list(table.measure(model, records, str.split, direction=direction))


def row_of(identifier: object, label: object, text: str, **columns: object) -> Record:
    return Record(text, text.split(), columns={"id": identifier, "label": label, **columns})


def expected_bits(folder: Path, tokens: list[str]) -> list[float]:
    """Return the reference's surprisals of a sentence with its boundary, forward and backward."""
    scores, _ = reference.model_scores(folder, tokens, WORDS)
    return [-sum(values) / np.log(2) for values in scores]


texts = st.lists(st.sampled_from(["the", "cat", "sat", "dog", "東京"]), min_size=1, max_size=5)


@given(texts, texts)
def test_pairs_are_measured_as_by_the_reference(
    folder: Path, good: list[str], bad: list[str]
) -> None:
    record = Record(" ".join(good), good, "p1", columns={"bad": " ".join(bad)})
    [pair] = measure(folder, ("text", "bad"), [record])
    expected = expected_bits(folder, good), expected_bits(folder, bad)
    assert_allclose([pair.good, pair.bad], expected, atol=2e-4)
    assert (pair.n_unknown_good, pair.n_unknown_bad) == (good.count("dog"), bad.count("dog"))
    if good == bad:
        assert pair.correct == [0.5] * 3
    else:
        sums = [[*values, sum(values)] for values in expected]
        assert pair.correct == [float(one < other) for one, other in zip(*sums, strict=True)]
    assert len(["id", *pair_columns("both")]) == len(pair.row)


def test_rows_with_one_id_are_a_pair_in_any_order(folder: Path) -> None:
    texts = {"a": ("the cat sat", "cat the sat"), "b": ("the cat", "cat the"), "7": ("sat", "the")}
    records = [
        *(row_of("a", "bad", texts["a"][1], kind=2), row_of("b", "Good", texts["b"][0], kind=3)),
        *(row_of(7, 1, texts["7"][0], kind=4), row_of(7, 0, texts["7"][1], kind=4)),
        *(row_of("b", "bad", texts["b"][1], kind=0), row_of("a", "good", texts["a"][0], kind=1)),
    ]
    pairs = measure(folder, ("label",), records, "forward", group="kind")
    assert [(pair.names, pair.columns) for pair in pairs] == [
        ((7,), {"kind": 4}),
        (("b",), {"kind": 3}),
        (("a",), {"kind": 1}),
    ]
    for pair in pairs:
        good, bad = (expected_bits(folder, text.split())[:1] for text in texts[str(pair.names[0])])
        assert_allclose([pair.good, pair.bad], [good, bad], atol=2e-4)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([row_of("a", "good", "the")], "pair a: expected a good and a bad sentence, found a good"),
        ([row_of("a", "bad", "the")] * 2, "pair a: expected one bad sentence, found two"),
        ([row_of("a", "fine", "the")], "record 1, column 'label': expected good or bad, 1 or 0"),
        ([row_of(None, "good", "the")], "record 1, column 'id': expected an id, found none"),
        ([row_of("a", "good", "")], "pair a: the good sentence is empty"),
    ],
)
def test_rows_that_are_no_pairs(folder: Path, records: list[Record], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(folder, ("label",), records)


def test_the_reading_keeps_what_pairs_need() -> None:
    given_settings = TextSettings(text_column="s", id_column="item", keep_columns=("x",))
    rows = PairTable(("label",), given_settings, "g").reading
    assert (rows.text_column, rows.id_column) == ("s", None)
    assert rows.keep_columns == ("x", "g", "label", "item")
    given_settings = TextSettings(id_column="item", keep_columns=("x",))
    columns = PairTable(("good", "bad"), given_settings, "g").reading
    assert (columns.text_column, columns.id_column) == ("good", "item")
    assert columns.keep_columns == ("x", "g", "bad")


def test_all_columns_are_kept_but_those_of_the_pair(folder: Path) -> None:
    records = [row_of("a", "good", "the", x=1), row_of("a", "bad", "cat", x=2)]
    settings = TextSettings(keep_columns=("all",))
    [pair] = measure(folder, ("label",), records, settings=settings)
    assert pair.columns == {"x": 1}


def test_the_accuracy_is_that_of_each_group() -> None:
    accuracy = Accuracy("both", "kind")
    for kind, good, bad in (("a", 1.0, 2.0), ("a", 3.0, 2.0), ("b", 1.0, 1.0)):
        accuracy.add(Pair(("1",), {"kind": kind}, [good, 0], [bad, 0.5], 0, int(kind == "b")))
    assert (accuracy.n_pairs, accuracy.n_unknown) == (3, 1)
    assert list(accuracy.lines()) == [
        "all pairs: correct forward 1.5 of 3 (50.0%), backward 3 of 3 (100.0%), "
        "both 2 of 3 (66.7%)",
        "kind a: correct forward 1 of 2 (50.0%), backward 2 of 2 (100.0%), both 1 of 2 (50.0%)",
        "kind b: correct forward 0.5 of 1 (50.0%), backward 1 of 1 (100.0%), both 1 of 1 (100.0%)",
    ]


def test_a_pair_has_one_or_two_columns() -> None:
    with pytest.raises(InputError, match=r"^pairs: expected one column or two, found 3"):
        PairTable(("a", "b", "c"), TextSettings())
