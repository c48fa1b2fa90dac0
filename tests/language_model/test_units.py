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
