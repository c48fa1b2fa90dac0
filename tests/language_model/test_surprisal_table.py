"""Rows of tokens, words and regions, compared with the slow reference."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import WORDS, make_language_model, odd_tokens, seeds, small_architecture

from elmo_cli import LanguageModel, tokenize
from elmo_cli.errors import InputError
from elmo_cli.language_model.frequencies import estimate_frequencies
from elmo_cli.language_model.surprisal import SurprisalTable, UnitKind
from elmo_cli.text.parsers import LINE
from elmo_cli.text.records import Record


def measure_rows(
    model_folder: Path, records: Sequence[Record], **settings: Any
) -> tuple[list[str], list[list[Any]]]:
    """Measure the columns and rows of a table, whose rows begin with the names of the record."""
    model = LanguageModel(model=model_folder)
    table = SurprisalTable(**settings)
    rows = [
        [*scored.names, *table.row(unit)]
        for scored in table.measure(model, records)
        for unit in scored.result
    ]
    return table.columns, rows


def record_of(words: Sequence[Sequence[str]], mark: str) -> Record:
    """Return a record of units, which are lists of tokens, with a mark between units."""
    text = mark.join("".join(tokens) for tokens in words)
    return Record(text, [token for tokens in words for token in tokens], "s1")


def expected_bits(model_folder: Path, tokens: list[str]) -> tuple[list[float], list[float]]:
    """Return the reference's surprisals of the tokens of a sentence, forward and backward."""
    scores, _ = reference.model_scores(model_folder, tokens, WORDS)
    forward, backward = (-np.array(values) / np.log(2) for values in scores)
    return forward[:-1].tolist(), backward[1:].tolist()


visible_tokens = odd_tokens.filter(
    lambda token: token.isprintable() and "|" not in token and not any(map(str.isspace, token))
)
words_of_tokens = st.lists(st.lists(visible_tokens, min_size=1, max_size=3), min_size=1, max_size=4)


@given(seeds, words_of_tokens, st.sampled_from([("word", " "), ("region", " | ")]))
def test_sums_of_words_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    words: list[list[str]],
    kind: tuple[UnitKind, str],
) -> None:
    model_folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, model_folder)
    unit, mark = kind
    columns, rows = measure_rows(
        model_folder, [record_of(words, mark)], unit=unit, direction="both"
    )
    assert columns == [
        *(f"{unit}_number", unit, "tokens"),
        *("surprisal_forward", "surprisal_backward", "surprisal_average"),
        *("log_frequency_by_rank", "length", "known"),
    ]
    expected = expected_bits(model_folder, [token for tokens in words for token in tokens])
    ends = np.cumsum([len(tokens) for tokens in words])
    for row, tokens, end in zip(rows, words, ends, strict=True):
        sums = [sum(bits[end - len(tokens) : end]) for bits in expected]
        assert row[2:4] == ["".join(tokens), len(tokens)]
        assert_allclose(row[4:7], [*sums, sum(sums) / 2], atol=2e-4)
        assert row[-1] == all(token in WORDS and token != "<UNK>" for token in tokens)
    assert [row[1] for row in rows] == list(range(1, 1 + len(words)))


def test_words_of_a_text_add_up_to_its_tokens(model_folder: Path) -> None:
    text = "The cat didn't see the party."
    record = Record(text, tokenize(text), None)
    settings = {"direction": "both", "with_entropy": True}
    _, tokens = measure_rows(model_folder, [record], **settings)
    columns, words = measure_rows(model_folder, [record], unit="word", **settings)
    assert columns[6:8] == ["entropy_forward", "entropy_backward"]
    assert [row[:4] for row in words[2:4]] == [[1, 3, "didn't", 2], [1, 4, "see", 1]]
    assert_allclose(words[2][4:6], np.sum([row[3:5] for row in tokens[2:4]], axis=0))
    # Each direction has the entropy of the prediction that meets the word first.
    assert words[2][7:9] == [tokens[2][6], tokens[3][7]]


def test_a_token_has_its_position_length_and_frequency(model_folder: Path) -> None:
    columns, rows = measure_rows(model_folder, [Record("", ["the", "doggy", "東京"])])
    names = ["position", "token", "surprisal", "log_frequency_by_rank", "length", "known"]
    assert columns == names
    frequencies = estimate_frequencies(LanguageModel(model=model_folder).vocabulary)
    assert [row[:3] + row[4:] for row in rows] == [
        [1, 0, "the", frequencies["the"], 3, True],
        [1, 1, "doggy", None, 5, False],
        [1, 2, "東京", frequencies["東京"], 2, True],
    ]
    counts = {"doggy": -3.0}
    columns, rows = measure_rows(model_folder, [Record("", ["the", "doggy"])], frequencies=counts)
    assert columns[3] == "log_frequency"
    assert [row[4] for row in rows] == [None, -3]


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("token", "the cat’s.", [-1, -2, -3, None]),
        ("word", "The cat, sat. “The”", [-1, -2, None, -1]),
        ("region", "The cat, | — | the cat’s, | cat sat", [-3, None, -6, None]),
    ],
)
def test_punctuation_does_not_change_a_frequency(
    model_folder: Path, unit: UnitKind, text: str, expected: list[float | None]
) -> None:
    counts = {"the": -1.0, "cat": -2.0, "'s": -3.0}
    record = Record(text, tokenize(text.replace("|", " ")))
    columns, rows = measure_rows(model_folder, [record], unit=unit, frequencies=counts)
    place = columns.index("log_frequency") + 1
    assert [row[place] for row in rows] == expected


def test_records_without_ids_have_numbers_from_one(model_folder: Path) -> None:
    records = [Record("cat", ["cat"]), Record("", []), Record("sat", ["sat"])]
    assert [row[0] for row in measure_rows(model_folder, records)[1]] == [1, 3]
    split = [Record("cat", ["cat"], attributes={LINE: "4"})]
    assert measure_rows(model_folder, split)[1][0][:3] == [5, 1, 0]


def test_tokens_of_two_words_are_an_error_with_the_record(model_folder: Path) -> None:
    with pytest.raises(InputError, match=r"^record s7: word 1, 'the': the word "):
        measure_rows(model_folder, [Record("the cat", ["thecat"], "s7")], unit="word")
