"""Words that may have been meant, and how much of a text a message shows."""

import pytest

from elmo_cli import find_occurrence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import did_you_mean, quoted, similar_word
from elmo_cli.options.selection import SelectionSettings


@pytest.mark.parametrize(
    ("typed", "others", "meant"),
    [
        ("tpo", ["all", "top"], "top"),
        ("tops", ["all", "top"], "top"),
        ("TOP", ["all", "top"], "top"),
        ("cat", ["dog", "cats"], "cats"),
        ("fp16", ["float32", "float16"], "float16"),
        ("precison", ["layers", "precision"], "precision"),
        ("A", ["a", "an"], "a"),
    ],
)
def test_a_similar_word_is_suggested(typed: str, others: list[str], meant: str) -> None:
    assert similar_word(typed, others) == meant
    assert did_you_mean(typed, others) == f"Did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("typed", "others"),
    [
        ("he", ["the", "her"]),
        ("on", ["no"]),
        ("was", ["saw", "has"]),
        ("bank", ["an", "and"]),
        ("kind", ["id"]),
        ("cat", ["car", "at"]),
    ],
)
def test_no_other_short_word_is_suggested(typed: str, others: list[str]) -> None:
    assert similar_word(typed, others) == ""
    assert did_you_mean(typed, others) == ""


def test_a_quoted_text_is_cut() -> None:
    assert quoted("it's a " * 11) == repr("it's a " * 11)
    assert quoted("word " * 20) == f"'{'word ' * 16}...'"


@pytest.mark.parametrize("word", ["dog", "the cat", "cat" * 300])
def test_a_missing_word_shows_the_beginning_of_its_text(word: str) -> None:
    with pytest.raises(InputError) as caught:
        find_occurrence("the cat sat on the mat " * 40, word)
    message = str(caught.value)
    assert "the cat sat on the mat the cat sat" in message
    assert len(message) < 300


def test_a_wrong_value_is_cut() -> None:
    with pytest.raises(SettingsError, match=r"found '(mean){20}\.\.\.'$"):
        SelectionSettings(pooling="mean" * 100)  # type: ignore[arg-type]
