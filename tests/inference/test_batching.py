from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.inference.batching import group_by_length, index_tokens, split_by_size

lengths_of_sentences = st.lists(st.integers(0, 7), max_size=8)
streams = st.lists(st.lists(st.just("x"), max_size=5), max_size=20)
bounds = st.integers(1, 12)


# Windows


@given(stream=streams, max_tokens=bounds, max_sentences=bounds)
def test_windows_are_the_stream_in_order_each_closed_by_the_sentence_that_reaches_a_bound(
    stream: list[list[str]], max_tokens: int, max_sentences: int
) -> None:
    def is_full(window: list[list[str]]) -> bool:
        return sum(map(len, window)) >= max_tokens or len(window) >= max_sentences

    cut = list(split_by_size(stream, max_tokens, max_sentences))
    assert [sentence for window in cut for sentence in window] == stream
    assert all(cut)
    assert all(is_full(window) for window in cut[:-1])
    assert not any(is_full(window[:-1]) for window in cut)


def test_no_sentence_is_taken_before_its_window_is_wanted() -> None:
    taken = 0

    def stream() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "ab"

    cut = split_by_size(stream(), max_tokens=6, max_sentences=100)
    assert next(cut) == ["ab"] * 3
    assert taken == 3


# Batches


@given(lengths=lengths_of_sentences, max_tokens=bounds, max_sentences=bounds)
def test_batches_hold_the_sentences_with_tokens_longest_first_and_as_many_as_fit(
    lengths: list[int], max_tokens: int, max_sentences: int
) -> None:
    def fits(batch: list[int]) -> bool:
        n_tokens = sum(lengths[index] for index in batch)
        return len(batch) <= max_sentences and (len(batch) == 1 or n_tokens <= max_tokens)

    batches = list(group_by_length(lengths, max_tokens, max_sentences))
    with_tokens = [index for index, length in enumerate(lengths) if length > 0]
    found = [index for batch in batches for index in batch]
    assert found == sorted(with_tokens, key=lambda index: -lengths[index])
    assert all(batch and fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))


# Tokens


def test_each_token_is_listed_once_in_order_of_appearance() -> None:
    tokens, rows = index_tokens([["b", "a", "b"], [], ["c", "a"]])
    assert tokens == ["b", "a", "c"]
    assert rows.tolist() == [[0, 1, 0], [-1, -1, -1], [2, 1, -1]]
