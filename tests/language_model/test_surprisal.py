"""Surprisals of tokens, words and regions, compared with the slow reference."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from strategies import WORDS, batches, make_language_model, odd_tokens, seeds, small_architecture

from elmo_cli import LanguageModel, measure_surprisal, tokenize
from elmo_cli.errors import InputError
from elmo_cli.language_model.frequencies import estimate_frequencies
from elmo_cli.language_model.surprisal import SurprisalTable, UnitKind
from elmo_cli.text.parsers import LINE
from elmo_cli.text.records import Record


def expected_bits(folder: Path, sentence: Sequence[str]) -> NDArray[np.float64]:
    """Return the reference's surprisals and entropies of T tokens per direction, (2, 2, T)."""
    options = json.loads((folder / "options.json").read_text())
    softmax = reference.read_arrays(folder / "softmax.hdf5")
    arrays = reference.read_arrays(folder / "weights.hdf5")
    layers, _ = reference.bilm(sentence, options, arrays, WORDS)
    forward, backward = np.split(layers[-1], 2, axis=1)
    bits = np.empty((2, 2, len(sentence)))
    for i, token in enumerate(sentence):
        word = WORDS.index(token if token in WORDS else "<UNK>")
        for direction, context in enumerate((forward[i], backward[i + 2])):
            log_p = reference.log_probabilities(context, softmax["softmax/W"], softmax["softmax/b"])
            bits[direction, :, i] = -log_p[word], -(np.exp(log_p) * log_p).sum()
    return bits / np.log(2)


@given(seeds, batches(), st.booleans())
def test_surprisals_and_entropies_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sentences: list[list[str]], backward: bool
) -> None:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, folder)
    model = LanguageModel(model=folder)
    measured = measure_surprisal(model, sentences, backward=backward, with_entropy=True)
    for values, sentence in zip(measured, sentences, strict=True):
        assert values.tokens == sentence
        assert values.known.tolist() == [t in WORDS and t != "<UNK>" for t in sentence]
        expected = expected_bits(folder, sentence)[int(backward)]
        assert_allclose([values.surprisal, values.entropy], expected, atol=5e-5)


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
    record = record_of(words, mark)
    columns, rows = measure_rows(model_folder, [record], unit=unit, direction="both")
    assert columns == [
        *(f"{unit}_number", unit, "tokens"),
        *("surprisal_forward", "surprisal_backward", "surprisal_average"),
        *("log_frequency_by_rank", "length", "known"),
    ]
    sentence = [token for tokens in words for token in tokens]
    expected = expected_bits(model_folder, sentence)[:, 0]
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
