"""Cosines of vectors, and words in sentences."""

import numpy as np
import pytest

from elmo_cli.analysis.neighbours import cosine
from elmo_cli.analysis.occurrences import find_occurrence
from elmo_cli.errors import InputError

RIVER = ["We", "sat", "by", "the", "river", "bank", "."]
TWICE = ["bank", "after", "bank"]


def test_the_cosine_of_planted_vectors() -> None:
    one, other = np.array([3, 4], np.float32), np.array([4, 3], np.float32)
    assert cosine(one, other) == pytest.approx(24 / 25)
    assert cosine(one, 10 * one) == pytest.approx(1)
    assert cosine(one, -one) == pytest.approx(-1)
    assert cosine(one, np.array([-4, 3], np.float32)) == 0
    assert cosine(one, np.zeros(2, np.float32)) == 0


@pytest.mark.parametrize(
    ("sentence", "word", "number", "result"),
    [
        (RIVER, "bank", None, 5),
        ("We sat by the river bank.", "bank", None, 5),
        (TWICE, "bank", 1, 0),
        (TWICE, "bank", 2, 2),
        (TWICE, "bench", None, "'bench' is not a token of 'bank after bank'"),
        (RIVER, "We", 2, "'We' occurs once in 'We sat by the river bank .', not 2 times."),
        (["I", "sat"], "Sat", None, "'Sat' is not a token of 'I sat'. Did you mean 'sat'?"),
        ("the banks", "bank", 2, "'bank' is not a token of 'the banks'. Did you mean 'banks'?"),
        ([], "bank", None, "'bank' is not a token of an empty sentence"),
        (["b"] * 2, "b", None, "'b' occurs 2 times in 'b b'. Choose one with a number, 1 to 2."),
        (TWICE, "bank", 3, "'bank' occurs 2 times in 'bank after bank', not 3 times."),
    ],
)
def test_a_word_is_found_or_an_error_with_the_tokens(
    sentence: str | list[str], word: str, number: int | None, result: int | str
) -> None:
    if isinstance(result, int):
        occurrence = find_occurrence(sentence, word, number)
        assert (occurrence.index, occurrence.token) == (result, word)
        return
    with pytest.raises(InputError) as caught:
        find_occurrence(sentence, word, number)
    assert str(caught.value) == result
