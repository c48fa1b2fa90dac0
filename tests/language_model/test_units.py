"""Words and regions of a sentence, and the log frequencies of words."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import tokenize
from elmo_cli.errors import InputError
from elmo_cli.language_model.surprisal import (
    Unit,
    UnitKind,
    estimate_frequencies,
    find_units,
    read_frequencies,
    sum_frequencies,
)
from elmo_cli.model.vocabulary import Vocabulary


def units_of(kind: UnitKind, text: str) -> list[tuple[str, list[str]]]:
    tokens = tokenize(text.replace("|", " ") if kind == "region" else text)
    return [(unit.text, tokens[unit.tokens]) for unit in find_units(kind, text, tokens)]


def test_a_word_has_the_tokens_between_spaces() -> None:
    assert units_of("word", "I didn't see  the party.") == [
        ("I", ["I"]),
        ("didn't", ["didn", "'t"]),
        ("see", ["see"]),
        ("the", ["the"]),
        ("party.", ["party", "."]),
    ]


def test_a_region_has_the_tokens_between_bars() -> None:
    assert units_of("region", "The horse | raced past the barn|fell.") == [
        ("The horse", ["The", "horse"]),
        ("raced past the barn", ["raced", "past", "the", "barn"]),
        ("fell.", ["fell", "."]),
    ]


def test_an_empty_region_keeps_its_number() -> None:
    units = find_units("region", "The horse | | fell", ["The", "horse", "fell"])
    assert units == [Unit(1, "The horse", slice(0, 2)), Unit(3, "fell", slice(2, 3))]


def test_a_token_is_a_unit_with_a_position() -> None:
    assert find_units("token", "a b", ["a", "b"]) == [
        Unit(0, "a", slice(0, 1)),
        Unit(1, "b", slice(1, 2)),
    ]


@given(st.lists(st.text("ab'.,\"-$%0é東", min_size=1), max_size=8))
def test_words_partition_the_tokens_of_moses(words: list[str]) -> None:
    text = " ".join(words)
    tokens = tokenize(text)
    try:
        units = find_units("word", text, tokens)
    except InputError:
        assert "".join(tokens) != "".join(words)  # Moses changes some texts of signs.
        return
    assert [token for unit in units for token in tokens[unit.tokens]] == tokens
    assert [unit.text for unit in units] == words
    for unit in units:
        assert "".join(tokens[unit.tokens]) == unit.text


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("a b", ["ab"], "word 1, 'a': expected the tokens of the word, found 'ab'"),
        ("a b", ["a", "c"], "word 2, 'b': expected the tokens of the word, found 'c'"),
        ("a b", ["a"], "word 2, 'b': expected the tokens of the word, found none"),
        ("a", ["a", "b"], "the end of the text: expected the tokens of the word, found 'b'"),
    ],
)
def test_tokens_that_are_not_those_of_words(text: str, tokens: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        find_units("word", text, tokens)
    assert str(error.value).startswith(message)


def test_estimated_frequencies_sum_to_one() -> None:
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat"])
    frequencies = estimate_frequencies(vocabulary)
    assert list(frequencies) == ["the", "cat", "sat"]
    special = math.log(4 / 1) / math.log(7)  # the share of the ranks 0 to 2
    assert sum(2**value for value in frequencies.values()) == pytest.approx(1 - special)
    assert frequencies["the"] == pytest.approx(math.log2(math.log(5 / 4) / math.log(7)))
    assert frequencies["the"] > frequencies["cat"] > frequencies["sat"]


@pytest.mark.parametrize(
    "content",
    [
        'word\tcount\nthe\t6\n"\t1\nthe\t1\nrare\t0\n',
        'the 7\n" 1\nrare 0\n',
        'Word,Count,Per million\nthe,7,9\n"""",1,9\nrare,0,0\n',
    ],
)
def test_counts_of_a_file_are_log_shares(content: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(content)
    assert read_frequencies(path) == {"the": math.log2(7 / 8), '"': -3.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the\t7\ncat\tmany\n", "line 2: expected a word and its count, found 'cat\\\\tmany'"),
        ("word\tcount\nthe\t-1\n", "line 2: expected a word and its count, found 'the\\\\t-1'"),
        ("word\tcount\n", "expected words with counts, found none"),
    ],
)
def test_a_file_without_counts_is_an_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_frequencies(path)


def test_a_sum_of_frequencies_needs_each_word() -> None:
    assert sum_frequencies(["a", "b", "a"], {"a": -1.0, "b": -2.0}) == -4
    assert sum_frequencies(["A", "B"], {"a": -1.0, "b": -2.0, "B": -3.0}) == -4
    assert sum_frequencies(["a", "c"], {"a": -1.0}) is None
