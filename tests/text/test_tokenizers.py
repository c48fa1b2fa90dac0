"""Raw text to tokens and sentences, by the rules of a language."""

import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import tokenize
from elmo_cli.errors import ElmoError, InputError
from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.tokenizers import make_tokenizer

ALL = ("whitespace", "moses", "moses:fr", "spacy", "spacy:de")
texts = st.text(st.sampled_from("aé東 .,;:!?'\"()-1%$\u2019«»"), max_size=30).map(str.strip)


def require(name: str) -> None:
    """Skip a test where the package of an extra is not installed."""
    pytest.importorskip({"spacy": "spacy", "sentences": "sentencex"}.get(name, "sacremoses"))


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget the cached tokenizers, because a test may hide their packages."""
    make_tokenizer.cache_clear()


@pytest.mark.parametrize(
    ("name", "language", "text", "expected"),
    [
        ("moses", None, "We don't know, Dr. Smith.", "We don 't know , Dr. Smith ."),
        ("moses", "fr", "L'homme est venu.", "L' homme est venu ."),
        ("moses:it", "fr", "L'uomo è venuto.", "L' uomo è venuto ."),
        ("moses", "de", "Am 3. Mai z.B. hier.", "Am 3. Mai z.B. hier ."),
        ("moses", None, 'a & "b" [c]', 'a & " b " [ c ]'),
        ("spacy", None, "We don't know, Dr. Smith.", "We do n't know , Dr. Smith ."),
        ("spacy:fr", "en", "L'homme est  venu.", "L' homme est venu ."),
        ("whitespace", "fr", " L'homme est  venu. ", "L'homme est venu."),
    ],
)
def test_punctuation_is_split_off_by_the_rules_of_the_language(
    name: str, language: str | None, text: str, expected: str
) -> None:
    require(name.partition(":")[0])
    assert tokenize(text, name, language) == expected.split()


def test_chinese_may_be_told_its_segmenter() -> None:
    require("spacy")
    text = "我们一起去公园散步吧。"
    assert tokenize(text, "spacy:zh") == tokenize(text, "spacy:zh:char") == list(text)
    with pytest.raises(InputError, match="expected whitespace, moses, spacy"):
        make_tokenizer("spacy:zh:words")
    with pytest.raises(InputError, match="expected whitespace, moses, spacy"):
        make_tokenizer("spacy:de:jieba")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_jieba_splits_chinese_into_words(capfd: pytest.CaptureFixture[str]) -> None:
    require("spacy")
    pytest.importorskip("jieba")
    tokenizer = make_tokenizer("spacy:zh:jieba")
    assert tokenizer.to_attributes() == {"tokenizer": "spacy:zh:jieba"}
    assert tokenizer.tokenize("我们去公园。") == ["我们", "去", "公园", "。"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ALL)
@given(text=texts)
def test_no_character_is_lost_but_white_space(name: str, text: str) -> None:
    require(name.partition(":")[0])
    assert "".join(make_tokenizer(name).tokenize(text)) == "".join(text.split())


@given(text=texts)
def test_sentences_are_the_text_and_none_is_blank(text: str) -> None:
    require("sentences")
    sentences = make_tokenizer("moses", split_sentences=True).split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_a_paragraph_is_not_split_at_abbreviations() -> None:
    require("sentences")
    splitter = make_tokenizer("whitespace", "de", split_sentences=True)
    text = "Am 3. Mai kam Dr. Meier. „Wirklich?“, fragte er. Ja!"
    expected = ["Am 3. Mai kam Dr. Meier.", "„Wirklich?“, fragte er.", "Ja!"]
    assert splitter.split_sentences(text) == expected
    assert splitter.tokenize_sentences(text) == [sentence.split() for sentence in expected]


@pytest.mark.parametrize(
    ("name", "language", "settings"),
    [
        ("whitespace", "fr", {}),
        ("moses", "fr", {"tokenizer": "moses:fr"}),
        ("moses:de", "fr", {"tokenizer": "moses:de"}),
        ("moses", None, {"tokenizer": "moses:en"}),
    ],
)
def test_settings_name_the_tokenizer_with_its_language(
    name: str, language: str | None, settings: dict[str, str]
) -> None:
    assert make_tokenizer(name, language).to_attributes() == settings


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        (
            "words",
            None,
            "tokenizer 'words': expected whitespace, moses, spacy, residues, or a language with "
            "moses or spacy, such as spacy:de, or spacy:zh with a segmenter, such as spacy:zh:jie",
        ),
        ("whitespace:fr", None, "tokenizer 'whitespace:fr': expected whitespace, moses"),
        ("moses", "French", "language 'French': expected its code in ISO 639, such as fr"),
        (
            "spacy:zz",
            None,
            "tokenizer spacy:zz: spaCy cannot make it: [E048] Can't import language zz",
        ),
    ],
)
def test_a_tokenizer_or_language_that_is_not_there_is_an_error(
    name: str, language: str | None, message: str
) -> None:
    require(name.partition(":")[0])
    with pytest.raises(InputError) as caught:
        make_tokenizer(name, language)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_missing_segmenter_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    require("spacy")
    monkeypatch.setitem(sys.modules, "jieba", None)
    make_tokenizer.cache_clear()
    with pytest.raises(InputError, match="Install it with `pip install jieba`"):
        make_tokenizer("spacy:zh:jieba")


@pytest.mark.parametrize(
    ("name", "split", "package", "message"),
    [
        ("spacy", False, "spacy", "tokenizer spacy needs a package that is not installed; pip .*"),
        ("moses", True, "sentencex", ".*; pip install .*\\[sentences\\].*"),
    ],
)
def test_a_package_that_is_not_installed_is_reported(
    name: str, split: bool, package: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ElmoError, match=f"^{message}$"):
        make_tokenizer(name, split_sentences=split)


def warnings_of(path: Path, content: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    path.write_text(content, encoding="utf-8")
    caplog.clear()
    opened = open_records(open_input(path))
    with caplog.at_level(logging.WARNING, "elmo_cli"), opened as (records, *_):
        assert [record.text for record in records] == content.splitlines()
    return caplog.messages


def test_raw_text_split_at_white_space_logs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "text"
    line = 'He said, "We sat by the river."\n'
    message = (
        "Warning: {} of the first {} tokens end in punctuation ({}), which becomes part of the "
        "word. Use --tokenizer moses to split it off."
    )
    once = message.format("2", "7", 'said, river."')
    assert warnings_of(path, line, caplog) == [once]
    often = message.format("286", "1,001", 'said, river." said,')
    assert warnings_of(path, line * 400, caplog) == [often]


@pytest.mark.parametrize(
    "content", ["", "We sat by the river .\n", "a b Mr. d\n" + 17 * "e " + "\n", '. , " ?\n']
)
def test_tokenized_text_is_not_warned_of(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = "\n".join(line.strip() for line in content.splitlines())
    assert warnings_of(tmp_path / "text", content, caplog) == []


def test_a_text_that_is_cut_otherwise_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "text"
    path.write_text("z.B. d.h. u.a.\n")
    opened = open_records(open_input(path, tokenizer=make_tokenizer("moses", "de")))
    with caplog.at_level(logging.WARNING, "elmo_cli"), opened as (records, *_):
        assert [record.tokens for record in records] == [["z.B.", "d.h.", "u.a."]]
    assert caplog.messages == []
