"""Evidence that a text is raw or tokenized."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.text.evidence import Evidence, find_evidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The keys to the cabinet is here.", "raw"),
        ("I am.", "raw"),
        ("Where are they, and why?", "raw"),
        ("Il dit : « Non ! » Puis il sortit, seul.", "raw"),
        ("The keys to the cabinet is here .", "tokenized"),
        ("Mr. Smith met Dr. Brown .", "tokenized"),
        ("The U.S. Inc. Corp. said so .", "tokenized"),
        ("`` He does n't know , ''", "tokenized"),
        ("They don &apos;t say &quot; no &quot; .", "tokenized"),
        ("l' homme est venu", "tokenized"),
        ("राम घर गया।", "raw"),
        ("وہ گھر گیا۔", "raw"),
        ("राम घर गया ।", None),
        ("a headline without marks", None),
        ("Mr. Smith", None),
        ("wait . . . what", None),
        ("Yahoo Inc. profit", None),
        ("今天天气很好我们一起去公园散步吧。 好的, 走吧.", None),
        ("&#1; 's", None),
        ("", None),
    ],
)
def test_marks_show_what_a_line_is(text: str, expected: Evidence | None) -> None:
    assert find_evidence([text]) == expected


def test_a_list_of_tokens_is_tokenized() -> None:
    assert (
        find_evidence(["Mr.", "Smith", "came", ",", "he", "said", "."]) == "tokenized"
    )


_LINES = [
    "He came .",
    "She left.",
    "Who, me?",
    "a headline",
    "No .",
    "I do n't",
    "l' eau",
    "Mr. X",
    "wait . . .",
]


@given(st.lists(st.sampled_from(_LINES)), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(
    lines: list[str], randomness: random.Random
) -> None:
    expected = find_evidence(lines)
    randomness.shuffle(lines)
    assert find_evidence(lines) == expected


_WORDS = st.sampled_from(["door", "she", "open", "Garten", "maison", "naïve", "дом"])


@given(st.lists(st.lists(_WORDS, min_size=2), min_size=1), st.sampled_from([",", "."]))
def test_tokenized_text_with_its_marks_joined_to_the_words_is_raw(
    sentences: list[list[str]], mark: str
) -> None:
    tokenized = [" ".join([*words, mark]) for words in sentences]
    assert find_evidence(tokenized) == "tokenized"
    joined = [line.replace(f" {mark}", mark) for line in tokenized]
    assert find_evidence(joined) in ("raw", None)
    n_words = sum(map(len, sentences))
    if len(sentences) >= 0.01 * n_words:
        assert find_evidence(joined) == "raw"


def test_rare_abbreviations_in_a_text_without_marks_are_no_evidence() -> None:
    lines = ["Trip franz. Trip", *(["diese sein dann golden Periode"] * 100)]
    assert find_evidence(lines) is None
