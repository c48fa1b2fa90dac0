"""Tests of the stream that computes many items."""

import gc
import weakref
from collections.abc import Iterable, Iterator

import pytest

from elmo_cli.pipeline import per_item


def lengths(words: Iterable[str]) -> Iterator[int]:
    """Yield the length of each word."""
    for word in words:
        yield len(word)


def in_windows_of(n_words: int, words: Iterable[str]) -> Iterator[str]:
    """Yield the words in capitals, of which as many as a window are read before the first."""
    window = []
    for word in words:
        window.append(word)
        if len(window) == n_words:
            yield from map(str.upper, window)
            window.clear()
    yield from map(str.upper, window)


def test_per_item_puts_the_results_of_each_item_together() -> None:
    texts = ["the cat sat", "dogs", "a bird"]
    assert list(per_item(texts, str.split, lengths)) == [
        ("the cat sat", [3, 3, 3]),
        ("dogs", [4]),
        ("a bird", [1, 4]),
    ]
    assert list(per_item([], str.split, lengths)) == []


def test_per_item_yields_an_item_before_it_reads_the_next_one() -> None:
    read = []

    def texts() -> Iterator[str]:
        for text in ("the cat", "dogs"):
            read.append(text)
            yield text

    found = per_item(texts(), str.split, lengths)
    assert read == []
    assert next(found) == ("the cat", [3, 3])
    assert read == ["the cat"]


@pytest.mark.parametrize("n_words", [1, 2, 3, 10])
def test_per_item_allows_windows_that_end_within_an_item(n_words: int) -> None:
    texts = ["the cat sat", "a bird", "dogs"]
    found = per_item(texts, str.split, lambda words: in_windows_of(n_words, words))
    assert list(found) == [
        ("the cat sat", ["THE", "CAT", "SAT"]),
        ("a bird", ["A", "BIRD"]),
        ("dogs", ["DOGS"]),
    ]


def test_per_item_holds_no_results_while_it_computes_the_next_ones() -> None:
    class Result:
        """A result that weak references may follow."""

    results: list[weakref.ref[Result]] = []

    def compute(parts: Iterable[str]) -> Iterator[Result]:
        for _ in parts:
            gc.collect()
            assert not any(result() for result in results[: len(results) // 2 * 2])
            result = Result()
            results.append(weakref.ref(result))
            yield result
            del result

    found = per_item(["the cat", "a bird"], str.split, compute)
    assert len([len(next(found)[1]) for _ in range(2)]) == 2


def test_per_item_refuses_an_item_without_parts() -> None:
    with pytest.raises(ValueError, match="no parts"):
        list(per_item([""], str.split, lengths))
