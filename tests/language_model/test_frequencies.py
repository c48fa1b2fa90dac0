"""Log frequencies of words: of a file of counts, of ranks, and of words with punctuation."""

import ast
import math
from pathlib import Path

import pytest

from elmo_cli.errors import InputError
from elmo_cli.language_model.frequencies import (
    estimate_frequencies,
    read_frequencies,
    sum_frequencies,
)
from elmo_cli.model.vocabulary import Vocabulary


def test_estimated_frequencies_sum_to_one() -> None:
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat"])
    frequencies = estimate_frequencies(vocabulary)
    assert list(frequencies) == ["the", "cat", "sat"]
    special = math.log(4 / 1) / math.log(7)  # the share of the ranks 0 to 2
    assert sum(2**value for value in frequencies.values()) == pytest.approx(1 - special)
    assert frequencies["the"] == pytest.approx(math.log2(math.log(5 / 4) / math.log(7)))
    assert frequencies["the"] > frequencies["cat"] > frequencies["sat"]


@pytest.mark.parametrize(
    "content",
    [
        'word\tcount\nthe\t6\n"\t1\nthe\t1\nrare\t0\n',
        'the 7\n" 1\nrare 0\n',
        'Word,Count,Per million\nthe,7,9\n"""",1,9\nrare,0,0\n',
    ],
)
def test_counts_of_a_file_are_log_shares(content: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(content)
    assert read_frequencies(path) == {"the": math.log2(7 / 8), '"': -3.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the\t7\ncat\tmany\n", "line 2: expected a word and its count, found 'cat\\\\tmany'"),
        ("word\tcount\nthe\t-1\n", "line 2: expected a word and its count, found 'the\\\\t-1'"),
        ("word\tcount\n", "no words with counts"),
    ],
)
def test_a_file_without_counts_is_an_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_frequencies(path)


FORMS = Path(__file__).with_name("word_lists.txt").read_text("utf-8").splitlines()[1:]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.partition(":")[0])
def test_columns_of_published_lists_are_found(form: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(ast.literal_eval(form.partition(": ")[2]), encoding="utf-8")
    expected = {"the": math.log2(4 / 8), "dog": math.log2(3 / 8), "ill": math.log2(1 / 8)}
    assert read_frequencies(path) == pytest.approx(expected, abs=1e-5)


def test_columns_are_found_in_the_first_lines_of_a_long_list(tmp_path: Path) -> None:
    words = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(500)]
    path = tmp_path / "counts.txt"
    path.write_text("".join(f"{word}\t{1.234 / (n + 1):.3f}\n" for n, word in enumerate(words)))
    frequencies = read_frequencies(path)
    assert list(frequencies) == words
    assert frequencies["aa"] - frequencies["ab"] == 1


COUNTS = {"the": -1.0, "dog": -2.0, "isn't": -3.0, "isn": -4.0, "t": -5.0, "Dr.": -6.0, ",": -7.0}


WORDS = Path(__file__).with_name("punctuation.txt").read_text("utf-8").splitlines()[1:]


@pytest.mark.parametrize("row", WORDS)
def test_frequency_of_a_word_is_not_that_of_its_punctuation(row: str) -> None:
    word, tokens, expected = row.split(" = ")
    assert str(sum_frequencies([(word, tokens.split())], COUNTS)) in (expected, f"{expected}.0")
