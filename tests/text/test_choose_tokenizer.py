"""Choice of a tokenizer: one test per row and column of the table in its docstring."""

import pytest

from elmo_cli.options.text import TextSettings
from elmo_cli.text.choose_tokenizer import Content, choose_tokenizer

ENGLISH = "moses:en"
FRENCH = "moses:fr"
TRAINED = "moses:de"


@pytest.mark.parametrize("content", ["lines", "texts", "strings", "tokens"])
def test_the_tokenizer_that_the_user_names_comes_first(content: Content) -> None:
    settings = TextSettings(tokenizer="residues", language="fr")
    assert choose_tokenizer(settings, content, trained=TRAINED).name == "residues"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("tokens", "whitespace"),
        ("lines", "whitespace"),
        ("texts", FRENCH),
        ("strings", TRAINED),
    ],
)
def test_a_language_excludes_the_tokenizer_of_the_training(
    content: Content, name: str
) -> None:
    settings = TextSettings(language="fr")
    assert choose_tokenizer(settings, content, trained=TRAINED).name == name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("tokens", "whitespace"),
        ("lines", TRAINED),
        ("texts", TRAINED),
        ("strings", TRAINED),
    ],
)
def test_texts_are_tokenized_as_in_the_training(content: Content, name: str) -> None:
    assert choose_tokenizer(TextSettings(), content, trained=TRAINED).name == name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("tokens", "whitespace"),
        ("lines", "whitespace"),
        ("texts", ENGLISH),
        ("strings", ENGLISH),
    ],
)
def test_moses_is_the_default_for_raw_text(content: Content, name: str) -> None:
    assert choose_tokenizer(TextSettings(), content).name == name


def test_strings_with_a_language_need_no_training() -> None:
    settings = TextSettings(language="fr")
    assert choose_tokenizer(settings, "strings").name == FRENCH


def test_the_language_is_that_of_the_model_unless_one_is_named() -> None:
    for settings, name in (
        (TextSettings(), "moses:it"),
        (TextSettings(language="fr"), FRENCH),
        (TextSettings(tokenizer="moses"), "moses:it"),
        (TextSettings(tokenizer=TRAINED), TRAINED),
    ):
        assert choose_tokenizer(settings, "texts", model_language="it").name == name


def test_sentences_are_split_by_the_language() -> None:
    pytest.importorskip("sentencex")
    settings = TextSettings(split_sentences=True)
    assert choose_tokenizer(settings, "lines", model_language="it").splits_by == "it"
