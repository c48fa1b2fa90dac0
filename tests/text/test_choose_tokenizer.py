"""Choice of a tokenizer: one test per row and column of the table in its docstring."""

import pytest
from hypothesis import given

from elmo_cli import tokenize
from elmo_cli.options.text import TextSettings
from elmo_cli.text.choose_tokenizer import Content, choose_tokenizer, raw_or_all
from elmo_cli.text.tokenizers import tokenize_texts
from tests.support.strategies import batches

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


def test_a_language_may_be_named_in_english() -> None:
    for settings in (
        TextSettings(language="German"),
        TextSettings(tokenizer="moses:german"),
    ):
        tokenizer = choose_tokenizer(settings, "texts", model_language="en")
        assert tokenizer.name == "moses:de"
        assert "English, not German (de)" in str(tokenizer.warning)
        german = choose_tokenizer(settings, "texts", model_language="de")
        assert german.warning is None


def test_an_unknown_language_has_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = TextSettings(tokenizer="moses", language="xyz")
    tokenizer = choose_tokenizer(settings, "texts", model_language="en")
    assert tokenizer.warning is None
    assert len(caplog.messages) == 1
    assert "moses:xyz" in caplog.messages[0]


def test_sentences_are_split_by_the_language() -> None:
    pytest.importorskip("sentencex")
    settings = TextSettings(split_sentences=True)
    assert choose_tokenizer(settings, "lines", model_language="it").splits_by == "it"


def test_a_typed_sentence_shows_its_tokenizer() -> None:
    assert tokenize("It didn't.") == ["It", "didn", "'t", "."]
    assert tokenize("It did n't .") == ["It", "did", "n't", "."]
    assert tokenize("It didn't.", tokenizer="whitespace") == ["It", "didn't."]


def test_texts_are_tokenized_as_the_first_ones_show() -> None:
    texts = ["It didn't.", "So what"]
    assert tokenize(texts) == [["It", "didn", "'t", "."], ["So", "what"]]
    assert tokenize(["It did n't .", "It isn't"]) == [
        ["It", "did", "n't", "."],
        ["It", "isn't"],
    ]
    assert tokenize([]) == []


def test_raw_sentences_decide_for_tokenized_ones() -> None:
    assert raw_or_all(["the bank .", "the bank.", "bank"]) == ["the bank."]
    assert raw_or_all(["the bank .", "bank"]) == ["the bank .", "bank"]


@given(batches())
def test_lists_of_tokens_are_never_changed(sentences: list[list[str]]) -> None:
    tokenizer = choose_tokenizer(TextSettings(), "strings", ["It came."])
    assert tokenizer.name == ENGLISH
    assert list(tokenize_texts(sentences, tokenizer.tokenize)) == sentences
