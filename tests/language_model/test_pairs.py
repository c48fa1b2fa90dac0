"""Minimal pairs, compared with the slow reference."""

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
from elmo_cli.language_model.pairs import Pair, PairTable, pair_columns
from elmo_cli.language_model.scoring import ScoredRecord
from elmo_cli.settings import TextSettings
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import WHITESPACE


def measure(model_folder: Path, good: str, bad: str) -> ScoredRecord[Pair]:
    record = Record(good, good.split(), "p1", columns={"bad": bad})
    table = PairTable(("good", "bad"), TextSettings())
    model = LanguageModel(model=model_folder)
    [scored] = table.measure(model, [record], WHITESPACE, direction="both")
    return scored


def expected_bits(model_folder: Path, tokens: list[str]) -> list[float]:
    """Return the reference's surprisals of a sentence with its boundary, forward and backward."""
    scores, _ = reference.model_scores(model_folder, tokens, WORDS)
    return [-sum(values) / np.log(2) for values in scores]


texts = st.lists(st.sampled_from(["the", "cat", "sat", "dog", "東京"]), min_size=1, max_size=5)


@given(texts, texts)
def test_pairs_are_measured_as_by_the_reference(
    model_folder: Path, good: list[str], bad: list[str]
) -> None:
    scored = measure(model_folder, " ".join(good), " ".join(bad))
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


@pytest.mark.parametrize(("good", "bad", "kind"), [("", "the", "good"), ("the", "", "bad")])
def test_an_empty_sentence_is_an_error(model_folder: Path, good: str, bad: str, kind: str) -> None:
    with pytest.raises(InputError, match=rf"^pair p1: the {kind} sentence is empty$"):
        measure(model_folder, good, bad)
