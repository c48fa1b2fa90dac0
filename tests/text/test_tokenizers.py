"""Raw text to tokens and sentences, by the rules of a language."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import find_occurrence, tokenize
from elmo_cli.errors.exceptions import ElmoError, InputError
from elmo_cli.options.tokenizer_names import recorded_tokenizer
from elmo_cli.text.tokenizers import (
    MARKS,
    make_tokenizer,
    normalize,
)

texts = st.text(st.sampled_from("aé東 .,;:!?'\"()-1%$‘’“„«»–—…´"), max_size=30).map(
    str.strip
)


def require(name: str) -> None:
    """Skip a test where the package of an extra is not installed."""
    pytest.importorskip(
        {"spacy": "spacy", "sentences": "sentencex"}.get(name, "sacremoses")
    )


pytestmark = pytest.mark.usefixtures("fresh_tokenizers")


@pytest.fixture
def fresh_tokenizers() -> None:
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
    assert tokenize(text, tokenizer=name, language=language) == expected.split()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_jieba_splits_chinese_into_words(capfd: pytest.CaptureFixture[str]) -> None:
    require("spacy")
    pytest.importorskip("jieba")
    tokenizer = make_tokenizer("spacy:zh:jieba")
    assert tokenizer.to_attributes() == {"tokenizer": "spacy:zh:jieba"}
    assert tokenizer.tokenize("我们去公园。") == ["我们", "去", "公园", "。"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", ["whitespace", "moses", "moses:fr", "spacy", "spacy:de"]
)
@given(text=texts)
def test_no_character_is_lost_but_white_space(name: str, text: str) -> None:
    require(name.partition(":")[0])
    tokenizer = make_tokenizer(name)
    expected = normalize(text) if tokenizer.normalization else text
    assert "".join(tokenizer.tokenize(text)) == "".join(expected.split())


@pytest.mark.parametrize("name", ["moses", "moses:fr", "moses:de", "spacy", "spacy:de"])
def test_typographic_marks_have_the_tokens_of_plain_ones(name: str) -> None:
    require(name.partition(":")[0])
    tokenize = make_tokenizer(name).tokenize
    assert tokenize("He isn’t here — “never”…") == tokenize(
        'He isn\'t here -- "never" ...'
    )
    assert tokenize("„L’homme“: ‚a‘ «b» 1–2, l´un") == tokenize(
        "\"L'homme\": 'a' \"b\" 1-2, l'un"
    )


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("moses", "He left — late.", "He left -- late ."),
        ("moses", "He left—late.", "He left -- late ."),
        ("moses:de", "He left – late.", "He left -- late ."),
        ("moses", "– Yes – –", "-- Yes -- --"),
        ("moses", "ran 1914–18", "ran 1914-18"),
        ("moses:fr", "the New–York road", "the New-York road"),
        ("moses", "He left - late -- very.", "He left - late -- very ."),
        ("spacy", "He left — late – very—late", "He left -- late -- very -- late"),
        ("spacy:de", "ran 1914–18", "ran 1914 - 18"),
        ("moses:verbatim", "He left — b – a", "He left — b – a"),
        ("moses:zh", "a — b – c", "a — b – c"),
        ("whitespace", "a — b – c", "a — b – c"),
    ],
)
def test_dashes_between_words_are_two_hyphens(
    name: str, text: str, expected: str
) -> None:
    require(name.partition(":")[0])
    assert make_tokenizer(name).tokenize(text) == expected.split()


def test_a_dash_is_found_as_it_is_written() -> None:
    for text in ("a — b", "a – b"):
        assert find_occurrence(text, "—").token == "--"
        assert find_occurrence(text, "--", tokenizer="moses").index == 1
    assert find_occurrence("a – b", "—", tokenizer="moses").index == 1


def test_marks_stay_where_tokens_are_given_or_the_user_says_so() -> None:
    text = "He isn’t here — “never”…"
    assert tokenize(text, tokenizer="whitespace") == text.split()
    verbatim = make_tokenizer("moses:fr:verbatim")
    assert verbatim.name == "moses:fr:verbatim"
    assert verbatim.tokenize("L’homme…") == ["L", "’", "homme", "…"]
    assert make_tokenizer("moses:verbatim", "fr").name == verbatim.name


def test_chinese_and_japanese_keep_their_marks() -> None:
    require("spacy")
    text = "他说：“不……”——《书》"
    assert (
        tokenize(text, tokenizer="spacy:zh")
        == tokenize(text, tokenizer="spacy:zh:char")
        == list(text)
    )
    for name in ("moses:ja", "moses:zh"):
        assert "“" in "".join(make_tokenizer(name).tokenize(text))
        assert make_tokenizer(name).to_attributes() == {"tokenizer": name}


ORIGINAL = {
    **dict.fromkeys("„“”«»", '"'),
    **dict.fromkeys("´", "'"),
    **{"–": "-", "—": " -- ", "…": "..."},
    **dict.fromkeys("‘’‚", "'"),
}
"""Rules of Moses' normalize-punctuation.perl for single characters, but for two. It
writes the last three as `'` between letters, and else as `"`, and dashes as `-`. The
training text of ELMo always has `'`, and `--` between words."""


def test_marks_are_those_of_the_original() -> None:
    assert str.maketrans(ORIGINAL) == MARKS


def test_no_other_character_is_changed_by_sacremoses() -> None:
    from sacremoses import MosesPunctNormalizer

    other = MosesPunctNormalizer(
        penn=False, norm_quote_commas=False, norm_numbers=False
    )
    kinds = ("P", "S", "Z")
    characters = [
        c for c in map(chr, range(0x10000)) if unicodedata.category(c)[0] in kinds
    ]
    for char in [*characters, "a", "é", "東", "1"]:
        for text in (f"a{char}b", f"a {char} b", f"{char}{char}a", f"1{char}"):
            # Moses makes `''` plain too, after single quotes.
            expected = "".join(other.normalize(text).split())
            found = normalize(text).replace("''", '"').replace(" -- ", "-")
            assert "".join(found.split()) == expected


@given(text=st.text() | texts)
def test_normalization_treats_each_word_by_itself(text: str) -> None:
    normalized = normalize(text)
    assert normalize(normalized) == normalized
    words = "".join(map(normalize, text.split()))
    assert "".join(words.split()) == "".join(normalized.split())
    if text.isascii():
        assert normalized == text


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
    assert splitter.tokenize_sentences(text) == [
        sentence.split() for sentence in expected
    ]


@pytest.mark.parametrize(
    ("name", "language", "settings"),
    [
        ("whitespace", "fr", {}),
        ("moses", "fr", {"tokenizer": "moses:fr", "normalization": "moses-2"}),
        ("moses:de", "fr", {"tokenizer": "moses:de", "normalization": "moses-2"}),
        ("moses", None, {"tokenizer": "moses:en", "normalization": "moses-2"}),
        ("moses:verbatim", None, {"tokenizer": "moses:en"}),
        ("residues", None, {"tokenizer": "residues"}),
        ("spacy:zh", None, {"tokenizer": "spacy:zh"}),
    ],
)
def test_settings_name_the_tokenizer_with_its_language(
    name: str, language: str | None, settings: dict[str, str]
) -> None:
    require(name.partition(":")[0])
    tokenizer = make_tokenizer(name, language)
    assert tokenizer.to_attributes() == settings
    recorded = recorded_tokenizer(settings)
    assert recorded is None if name == "whitespace" else recorded == tokenizer.name


def test_a_language_that_spacy_does_not_know_is_an_error() -> None:
    require("spacy")
    problem = "tokenizer='spacy:zz': spaCy does not support this language"
    with pytest.raises(
        InputError, match=rf"^{problem}\. Check the code, or use moses\.$"
    ):
        make_tokenizer("spacy:zz")


def test_a_language_without_rules_of_moses_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    require("moses")
    assert tokenize("Dr. Lee left.", tokenizer="moses:zz") == [
        "Dr.",
        "Lee",
        "left",
        ".",
    ]
    remedy = "Check the code, or use spacy:zz if spaCy supports it."
    problem = "Moses has no rules for this language, so those of English are used."
    assert caplog.messages == [f"tokenizer moses:zz: {problem} {remedy}"]
    caplog.clear()
    for name in ("moses:de", "moses:ja", "moses:ko"):
        assert tokenize("a", tokenizer=name) == ["a"]
    assert not caplog.messages


@pytest.mark.parametrize(
    ("name", "split", "package", "message"),
    [
        ("spacy", False, "spacy", "tokenizer='spacy' needs spacy, which is not .*"),
        ("moses", True, "sentencex", ".* pip install .*\\[sentences\\].*"),
        ("spacy:zh:jieba", False, "jieba", ".*Install it with `pip install jieba`.*"),
    ],
)
def test_a_package_that_is_not_installed_is_reported(
    name: str, split: bool, package: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(name.partition(":")[0] if package == "jieba" else "")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ElmoError, match=f"^{message}$"):
        make_tokenizer(name, split_sentences=split)
