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
from elmo_cli.language_model.surprisal import SurprisalTable, Unit, UnitKind, find_units
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import normalize


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
    bits /= np.log(2)
    return bits


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
        assert values.entropy is not None
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
    settings = {"unit": unit, "direction": "both", "with_entropy": True}
    columns, rows = measure_rows(model_folder, [record_of(words, mark)], **settings)
    assert columns == [
        *(f"{unit}_number", unit, "tokens"),
        *("surprisal_forward", "surprisal_backward", "surprisal_average"),
        *("entropy_forward", "entropy_backward", "log_frequency_by_rank", "length", "known"),
    ]
    sentence = [token for tokens in words for token in tokens]
    expected, entropies = expected_bits(model_folder, sentence).swapaxes(0, 1)
    ends = np.cumsum([len(tokens) for tokens in words])
    for row, tokens, end in zip(rows, words, ends, strict=True):
        sums = [sum(bits[end - len(tokens) : end]) for bits in expected]
        assert row[2:4] == ["".join(tokens), len(tokens)]
        assert_allclose(row[4:7], [*sums, sum(sums) / 2], atol=2e-4)
        # Each direction has the entropy of the prediction that meets the word first.
        first = [entropies[0][end - len(tokens)], entropies[1][end - 1]]
        assert_allclose(row[7:9], first, atol=5e-5)
        assert row[-1] == all(token in WORDS and token != "<UNK>" for token in tokens)
    assert [row[1] for row in rows] == list(range(1, 1 + len(words)))


def test_tokens_of_two_words_are_an_error_with_the_record(model_folder: Path) -> None:
    with pytest.raises(InputError, match=r"^record s7: word 1, 'the': the word "):
        measure_rows(model_folder, [Record("the cat", ["thecat"], "s7")], unit="word")


def units_of(kind: UnitKind, text: str) -> list[tuple[str, list[str]]]:
    tokens = tokenize(text.replace("|", " ") if kind == "region" else text)
    return [(unit.text, tokens[unit.tokens]) for unit in find_units(kind, text, tokens)]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("word", "I didn't  see.", "I: I; didn't: didn 't; see.: see ."),
        (
            "word",
            "He isn’t here — “never”…",
            'He: He; isn’t: isn \'t; here: here; —: -; “never”…: " never " ...',
        ),
        (
            "region",
            "The horse | raced past|fell.",
            "The horse: The horse; raced past: raced past; fell.: fell .",
        ),
    ],
)
def test_units_have_their_texts_and_tokens(kind: UnitKind, text: str, expected: str) -> None:
    units = [f"{unit}: {' '.join(tokens)}" for unit, tokens in units_of(kind, text)]
    assert "; ".join(units) == expected


def test_units_have_numbers_and_tokens_positions() -> None:
    a, b = Unit(0, "a", slice(0, 1)), Unit(1, "b", slice(1, 2))
    assert find_units("token", "a b", ["a", "b"]) == [a, b]
    # An empty region keeps its number.
    regions = find_units("region", "The horse | | fell", ["The", "horse", "fell"])
    assert regions == [Unit(1, "The horse", slice(0, 2)), Unit(3, "fell", slice(2, 3))]
    # Tokens may have typographic marks too.
    words = ["isn’t", "here—“never”…"]
    assert [unit.text for unit in find_units("word", " ".join(words), words)] == words


@given(st.lists(st.text("ab'.,\"-$%0é東‘’“„—…", min_size=1), max_size=8))
def test_words_partition_the_tokens_of_moses(words: list[str]) -> None:
    text = " ".join(words)
    tokens = tokenize(text)
    try:
        units = find_units("word", text, tokens)
    except InputError:
        visible = "".join(normalize(text).split())
        assert "".join(tokens) != visible  # Moses changes some texts of signs.
        return
    assert [token for unit in units for token in tokens[unit.tokens]] == tokens
    assert [unit.text for unit in units] == words
    for unit in units:
        assert "".join(tokens[unit.tokens]) == "".join(normalize(unit.text).split())


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("a b", ["ab"], "word 1, 'a': the word differs from the token 'ab'"),
        ("a b", ["a", "c"], "word 2, 'b': the word differs from the token 'c'"),
        ("a b", ["a"], "word 2, 'b': the word has no tokens"),
        ("a", ["a", "b"], "the end of the text: the word differs from the token 'b'"),
    ],
)
def test_tokens_that_are_not_those_of_words(text: str, tokens: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        find_units("word", text, tokens)
    assert str(error.value).startswith(message)
