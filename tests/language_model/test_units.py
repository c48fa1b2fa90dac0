"""Words and regions of a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import tokenize
from elmo_cli.errors import InputError
from elmo_cli.language_model.surprisal import Unit, UnitKind, find_units
from elmo_cli.text.tokenizers import normalize


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


def test_a_word_keeps_its_typographic_marks() -> None:
    assert units_of("word", "He isn’t here — “never”…") == [
        ("He", ["He"]),
        ("isn’t", ["isn", "'t"]),
        ("here", ["here"]),
        ("—", ["-"]),
        ("“never”…", ['"', "never", '"', "..."]),
    ]
    words = ["isn’t", "here—“never”…"]
    assert [unit.text for unit in find_units("word", " ".join(words), words)] == words


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
