"""Tokens and the characters of their text."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import locate_tokens, tokenize
from elmo_cli.errors.exceptions import InputError
from elmo_cli.text.alignment import (
    AlignedTokens,
    CharacterSpan,
    align_spans,
)
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

TOKENIZERS = [
    "whitespace",
    "residues",
    "moses",
    "moses:fr",
    "moses:zh",
    "moses:verbatim",
    "spacy",
    "spacy:zh",
    "spacy:de:verbatim",
]
texts = st.text(
    st.sampled_from("aBßé東 .,;:!?'\"()-1%$|\t\x01\x80‘’“„«»–—…´"), max_size=30
)


def make(name: str) -> Tokenizer:
    if name.startswith("spacy"):
        pytest.importorskip("spacy")
    return make_tokenizer(name)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts)
def test_tokens_are_found_in_their_text_in_order(name: str, text: str) -> None:
    tokens = make(name).tokenize(text)
    located = locate_tokens(text, tokens)
    assert len(located) == len(tokens)
    covered: set[int] = set()
    before = CharacterSpan(0, 0)
    for token, span in zip(tokens, located, strict=True):
        assert 0 <= span.start <= span.end <= len(text)
        # The characters of a mark such as … may be in two tokens.
        assert before.end - 1 <= span.start
        assert before.end <= span.end
        covered.update(range(span.start, span.end))
        if text.isascii():
            characters = text[span.start : span.end]
            kept = [character for character in characters if character > " "]
            assert "".join(kept).upper() == token.replace("\x01", "").upper()
        before = span
    for index, character in enumerate(text):
        if character > " " and character != "\x80":
            assert index in covered, (tokens, index)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("moses", "I can't.", ["I", "can", "'t", "."]),
        ("moses", "“No…”—he", ["“", "No", "…", "”", "—", "he"]),
        ("moses", "a–b – c — d–", ["a–b", "–", "c", "—", "d–"]),
        ("moses", "a–––b –– c", ["a–––b", "––", "c"]),
        ("moses:verbatim", "“No”", ["“", "No", "”"]),
        ("residues", "mk V", ["m", "k", "V"]),
        ("whitespace", " a  b.", ["a", "b."]),
    ],
)
def test_located_tokens_are_the_characters_as_written(
    name: str, text: str, expected: list[str]
) -> None:
    located = locate_tokens(text, make(name).tokenize(text))
    assert [text[start:end] for start, end in located] == expected


def test_tokens_of_several_sentences_are_found() -> None:
    pytest.importorskip("sentencex")
    text = "He left.– Now he ran."
    tokenizer = make_tokenizer("moses", split_sentences=True)
    tokens = [*chain.from_iterable(tokenizer.tokenize_sentences(text))]
    assert tokens == ["He", "left", ".", "--", "Now", "he", "ran", "."]
    located = locate_tokens(text, tokens)
    assert text[slice(*located[3])] == "–"
    assert text[slice(*located[4])] == "Now"


@pytest.mark.parametrize("name", ["whitespace", "residues", "moses", "spacy", "auto"])
@given(
    words=st.lists(
        st.sampled_from(
            ["it", "isn’t", "“a", "b”", "so…", "–c", "1914–18", "d—e", "--", "ß."]
        )
    )
)
def test_tokens_of_texts_have_separate_characters(name: str, words: list[str]) -> None:
    pytest.importorskip("spacy" if name == "spacy" else "sacremoses")
    text = " ".join(words)
    located = locate_tokens(text, tokenize(text, tokenizer=name))
    ends = [0, *(span.end for span in located)]
    for end, span in zip(ends, located, strict=False):
        # A letter such as ß may become two residues, and … two tokens.
        assert span.start >= end or text[span.start] in "ß…"
        assert text[span.start : span.end].strip()
        assert not any(map(str.isspace, text[span.start : span.end]))


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(InputError, match=r"^text: expected a string, found a value"):
        locate_tokens(["a"], ["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^tokens: expected a list of tokens, found"):
        locate_tokens("a", "a")  # type: ignore[arg-type]


def test_tokens_of_another_text_are_refused() -> None:
    for tokens in (["a", "c"], ["a"], ["a", "b", "c"]):
        with pytest.raises(InputError, match=r"^the tokens are not those of the text"):
            locate_tokens("a b", tokens)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 5, AlignedTokens(slice(0, 1), are_whole=True)),
        (0, 4, AlignedTokens(slice(0, 1), are_whole=False)),
        (6, 10, AlignedTokens(slice(1, 2), are_whole=False)),
        (3, 7, AlignedTokens(slice(0, 2), are_whole=False)),
        (0, 12, AlignedTokens(slice(0, 2), are_whole=True)),
        (5, 6, AlignedTokens(slice(1, 1), are_whole=True)),  # a space
        (7, 7, AlignedTokens(slice(1, 1), are_whole=True)),
    ],
)
def test_a_span_has_the_tokens_that_it_overlaps(
    start: int, end: int, expected: AlignedTokens
) -> None:
    located = locate_tokens("right winged", ["right", "winged"])
    assert list(align_spans([CharacterSpan(start, end)], located)) == [expected]


def test_a_control_character_between_dashes_is_in_no_token() -> None:
    text = "a –\x01– c"
    tokens = ["a", "--", "c"]  # by moses
    assert locate_tokens(text, tokens) == [(0, 1), (2, 5), (6, 7)]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts)
def test_words_between_spaces_have_all_tokens(name: str, text: str) -> None:
    located = locate_tokens(text, make(name).tokenize(text))
    spans = []
    end = 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append(CharacterSpan(start, end))
    found = {
        index
        for aligned in align_spans(spans, located)
        for index in range(len(located))[aligned.tokens]
    }
    assert found == set(range(len(located)))
