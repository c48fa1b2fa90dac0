"""Minimal pairs, compared with the slow reference."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import WORDS

from elmo_cli import LanguageModel
from elmo_cli.errors import InputError
from elmo_cli.language_model.pairs import Accuracy, Pair, PairTable, pair_columns
from elmo_cli.language_model.scoring import ScoredRecord
from elmo_cli.settings import Direction, TextSettings
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import WHITESPACE


def measure(
    model_folder: Path,
    records: Sequence[Record],
    direction: Direction = "both",
    *,
    settings: TextSettings | None = None,
    group: str | None = None,
) -> list[ScoredRecord[Pair]]:
    table = PairTable(("good", "bad"), settings or TextSettings(), group)
    model = LanguageModel(model=model_folder)
    return list(table.measure(model, records, WHITESPACE, direction=direction))


def record_of(identifier: str | None, good: str, bad: str | list[str], **columns: object) -> Record:
    return Record(good, good.split(), identifier, columns={"bad": bad, **columns})


def expected_bits(model_folder: Path, tokens: list[str]) -> list[float]:
    """Return the reference's surprisals of a sentence with its boundary, forward and backward."""
    scores, _ = reference.model_scores(model_folder, tokens, WORDS)
    return [-sum(values) / np.log(2) for values in scores]


texts = st.lists(st.sampled_from(["the", "cat", "sat", "dog", "東京"]), min_size=1, max_size=5)


@given(texts, texts)
def test_pairs_are_measured_as_by_the_reference(
    model_folder: Path, good: list[str], bad: list[str]
) -> None:
    [scored] = measure(model_folder, [record_of("p1", " ".join(good), " ".join(bad))])
    assert scored.names == ("p1",)
    pair = scored.result
    expected = expected_bits(model_folder, good), expected_bits(model_folder, bad)
    assert_allclose([pair.good, pair.bad], expected, atol=2e-4)
    assert (pair.n_unknown_good, pair.n_unknown_bad) == (good.count("dog"), bad.count("dog"))
    if good == bad:
        assert pair.correct == [0.5] * 3
    else:
        sums = [[*values, sum(values)] for values in expected]
        assert pair.correct == [float(one < other) for one, other in zip(*sums, strict=True)]
    assert len(pair_columns("both")) == len(pair.row)


def test_pairs_have_the_columns_of_their_row(model_folder: Path) -> None:
    records = [
        record_of("a", "the cat sat", "cat the sat", kind=1, x=2),
        record_of(None, "the cat", ["cat", "the"], kind=3, x=4),
    ]
    [pair] = measure(model_folder, records[:1], settings=TextSettings(keep_columns=("all",)))
    assert pair.record.columns == {"kind": 1, "x": 2}
    pairs = measure(model_folder, records, "forward", group="kind")
    assert [(pair.names, pair.record.columns) for pair in pairs] == [
        (("a",), {"kind": 1}),
        ((2,), {"kind": 3}),
    ]
    texts_of_pairs = [("the cat sat", "cat the sat"), ("the cat", "cat the")]
    for pair, texts in zip(pairs, texts_of_pairs, strict=True):
        good, bad = (expected_bits(model_folder, text.split())[:1] for text in texts)
        assert_allclose([pair.result.good, pair.result.bad], [good, bad], atol=2e-4)


@pytest.mark.parametrize(("good", "bad", "kind"), [("", "the", "good"), ("the", "", "bad")])
def test_an_empty_sentence_is_an_error(model_folder: Path, good: str, bad: str, kind: str) -> None:
    with pytest.raises(InputError, match=rf"^pair a: the {kind} sentence is empty$"):
        measure(model_folder, [record_of("a", good, bad)])


def test_the_reading_keeps_what_pairs_need() -> None:
    given_settings = TextSettings(id_column="item", keep_columns=("x",))
    columns = PairTable(("good", "bad"), given_settings, "g").reading
    assert (columns.text_column, columns.id_column) == ("good", "item")
    assert columns.keep_columns == ("x", "g", "bad")


def test_the_accuracy_is_that_of_each_group() -> None:
    accuracy = Accuracy("both", "kind")
    for kind, good, bad in (("a", 1.0, 2.0), ("a", 3.0, 2.0), ("b", 1.0, 1.0)):
        record = Record("", [], columns={"kind": kind})
        pair = Pair([good, 0], [bad, 0.5], 0, int(kind == "b"))
        accuracy.add(ScoredRecord(("1",), record, pair))
    assert (accuracy.n_pairs, accuracy.n_unknown) == (3, 1)
    assert list(accuracy.lines()) == [
        "all pairs: correct forward 1.5 of 3 (50.0%), backward 3 of 3 (100.0%), "
        "both 2 of 3 (66.7%)",
        "kind a: correct forward 1 of 2 (50.0%), backward 2 of 2 (100.0%), both 1 of 2 (50.0%)",
        "kind b: correct forward 0.5 of 1 (50.0%), backward 1 of 1 (100.0%), both 1 of 1 (100.0%)",
    ]
