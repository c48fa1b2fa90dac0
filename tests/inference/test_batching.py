from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.inference.batching import group_by_length, split_by_size

lengths_of_sentences = st.lists(st.integers(0, 7), max_size=8)
streams = st.lists(st.lists(st.just("x"), max_size=5), max_size=20)
bounds = st.integers(1, 12)


@given(stream=streams, max_tokens=bounds, max_sentences=bounds)
def test_windows_are_the_stream_in_order_up_to_a_maximum_size(
    stream: list[list[str]], max_tokens: int, max_sentences: int
) -> None:
    def is_full(window: list[list[str]]) -> bool:
        return sum(map(len, window)) >= max_tokens or len(window) >= max_sentences

    cut = list(split_by_size(stream, max_tokens, max_sentences))
    assert [sentence for window in cut for sentence in window] == stream
    assert all(cut)
    assert all(is_full(window) for window in cut[:-1])
    assert not any(is_full(window[:-1]) for window in cut)


def test_split_by_size_reads_one_window_at_a_time() -> None:
    taken = 0

    def stream() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "ab"

    cut = split_by_size(stream(), max_tokens=6, max_sentences=100)
    assert next(cut) == ["ab"] * 3
    assert taken == 3


@given(lengths=lengths_of_sentences, max_tokens=bounds, max_sentences=bounds)
def test_batches_are_full_and_begin_with_the_longest_sentence(
    lengths: list[int], max_tokens: int, max_sentences: int
) -> None:
    def fits(batch: list[int]) -> bool:
        n_tokens = sum(lengths[index] for index in batch)
        return len(batch) <= max_sentences and (len(batch) == 1 or n_tokens <= max_tokens)

    batches = list(group_by_length(lengths, max_tokens, max_sentences))
    with_tokens = [index for index, length in enumerate(lengths) if length > 0]
    indices = [index for batch in batches for index in batch]
    assert indices == sorted(with_tokens, key=lambda index: -lengths[index])
    assert all(batch and fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))
