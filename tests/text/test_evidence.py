"""Evidence that a text is raw or tokenized."""

import random

import pytest

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


def test_the_order_of_lines_does_not_matter() -> None:
    lines = ["He came .", "She left.", "Who, me?", "a headline", "No ."]
    expected = find_evidence(lines)
    for seed in range(10):
        random.Random(seed).shuffle(lines)
        assert find_evidence(lines) == expected


def test_rare_abbreviations_in_a_text_without_marks_are_no_evidence() -> None:
    lines = ["Trip franz. Trip", *(["diese sein dann golden Periode"] * 100)]
    assert find_evidence(lines) is None
