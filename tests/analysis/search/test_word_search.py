"""The search for a word in files of target words, whose forms may be other words."""

from pathlib import Path

import pytest

from elmo_cli import ElmoEmbedder, open_occurrences, write_occurrences
from elmo_cli.analysis.search.word_search import find_word
from elmo_cli.errors.exceptions import InputError

TEXT = "We sat on the bank .\nBoth banks are green .\nThe shore is near .\n"
FORMS = {"bank": "bank", "banks": "bank", "shore": "banks"}
"""Target word of each form. "banks" is a word, and a form of another word."""


@pytest.fixture
def occurrences(folder: Path, tiny: ElmoEmbedder) -> str:
    """Write a file of the three target words of `TEXT`, and return its path."""
    Path("text.txt").write_text(TEXT)
    write_occurrences(tiny, "text.txt", "occurrences.hdf5", FORMS)
    return "occurrences.hdf5"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("bank", ["bank", "banks"], id="a word in all its forms"),
        pytest.param("shore", ["shore"], id="a form without a word of its own"),
        pytest.param("banks", ["shore"], id="a word before an equal form"),
    ],
)
def test_find_word_prefers_the_target_word_to_a_form(
    occurrences: str, word: str, expected: list[str]
) -> None:
    with open_occurrences(occurrences) as files:
        found = find_word(files, word)
    assert [occurrence.token for occurrence in found] == expected


def test_find_word_suggests_a_similar_word(occurrences: str) -> None:
    message = r"occurrences\.hdf5: 'bnks' does not occur\. Did you mean 'banks'\?"
    with (
        open_occurrences(occurrences) as files,
        pytest.raises(InputError, match=f"^{message}$"),
    ):
        find_word(files, "bnks")
