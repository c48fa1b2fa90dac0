from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from elmo_cli.inference.batching import batches_by_length, index_tokens, pack, windows

lengths_of_sentences = st.lists(st.integers(0, 7), max_size=8)
streams = st.lists(st.lists(st.just("x"), max_size=5), max_size=20)
bounds = st.integers(1, 12)


# Packing


@given(lengths=lengths_of_sentences)
def test_sentences_lie_packed_step_after_step(lengths: list[int]) -> None:
    order = sorted(range(len(lengths)), key=lambda sentence: -lengths[sentence])
    rows = [
        (sentence, step)
        for step in range(max(lengths, default=0))
        for sentence in order
        if step < lengths[sentence]
    ]
    packing = pack(lengths)
    assert packing.order.tolist() == order
    assert list(zip(packing.sentences.tolist(), packing.positions.tolist(), strict=True)) == rows
    assert packing.sizes == [
        sum(length > step for length in lengths) for step in range(max(lengths, default=0))
    ]
    turned = [rows[i] for i in packing.reversal]
    assert turned == [(sentence, lengths[sentence] - 1 - step) for sentence, step in rows]


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_packing_is_that_of_torch(lengths: list[int]) -> None:
    sequences = [
        torch.tensor([100 * sentence + step for step in range(length)])
        for sentence, length in enumerate(lengths)
    ]
    packing = pack(lengths)
    expected = pack_sequence([sequences[sentence] for sentence in packing.order])
    assert packing.sizes == expected.batch_sizes.tolist()
    assert (100 * packing.sentences + packing.positions).tolist() == expected.data.tolist()


def test_an_array_of_lengths_is_packed_like_a_list() -> None:
    assert pack(np.array([2, 0, 3])).order.tolist() == pack([2, 0, 3]).order.tolist() == [2, 0, 1]


@given(lengths=lengths_of_sentences)
def test_packed_rows_are_found_again_sentence_after_sentence(lengths: list[int]) -> None:
    packing = pack(lengths)
    rows = np.lexsort((packing.positions, packing.sentences))
    found = zip(packing.sentences[rows].tolist(), packing.positions[rows].tolist(), strict=True)
    assert list(found) == [
        (sentence, position)
        for sentence, length in enumerate(lengths)
        for position in range(length)
    ]


# Windows


@given(stream=streams, max_tokens=bounds, max_sentences=bounds)
def test_windows_are_the_stream_in_order(
    stream: list[list[str]], max_tokens: int, max_sentences: int
) -> None:
    cut = list(windows(stream, max_tokens, max_sentences))
    assert [sentence for window in cut for sentence in window] == stream
    assert all(cut)


@given(stream=streams, max_tokens=bounds, max_sentences=bounds)
def test_a_window_is_closed_by_the_sentence_that_reaches_a_bound(
    stream: list[list[str]], max_tokens: int, max_sentences: int
) -> None:
    def is_full(window: list[list[str]]) -> bool:
        return sum(map(len, window)) >= max_tokens or len(window) >= max_sentences

    cut = list(windows(stream, max_tokens, max_sentences))
    assert all(is_full(window) for window in cut[:-1])
    assert not any(is_full(window[:-1]) for window in cut)


def test_no_sentence_is_taken_before_its_window_is_wanted() -> None:
    taken = 0

    def stream() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "ab"

    cut = windows(stream(), max_tokens=6, max_sentences=100)
    assert next(cut) == ["ab"] * 3
    assert taken == 3


# Batches


@given(lengths=lengths_of_sentences, budget=bounds, most=bounds)
def test_each_sentence_with_tokens_is_in_one_batch(
    lengths: list[int], budget: int, most: int
) -> None:
    batches = list(batches_by_length(lengths, budget, most))
    indices = [index for batch in batches for index in batch]
    assert sorted(indices) == [index for index, length in enumerate(lengths) if length > 0]
    assert all(batches)


@given(lengths=lengths_of_sentences, budget=bounds, most=bounds)
def test_a_batch_is_within_the_budget_or_one_long_sentence(
    lengths: list[int], budget: int, most: int
) -> None:
    for batch in batches_by_length(lengths, budget, most):
        assert len(batch) <= most
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget


@given(lengths=lengths_of_sentences, budget=bounds, most=bounds)
def test_a_batch_ends_only_where_the_next_sentence_would_not_fit(
    lengths: list[int], budget: int, most: int
) -> None:
    batches = list(batches_by_length(lengths, budget, most))
    for batch, following in pairwise(batches):
        assert (
            len(batch) == most or sum(lengths[index] for index in [*batch, following[0]]) > budget
        )


@given(lengths=lengths_of_sentences, budget=bounds, most=bounds)
def test_sentences_come_longest_first_and_equal_ones_in_order(
    lengths: list[int], budget: int, most: int
) -> None:
    indices = [index for batch in batches_by_length(lengths, budget, most) for index in batch]
    keys = [(-lengths[index], index) for index in indices]
    assert keys == sorted(keys)


@given(lengths=lengths_of_sentences, budget=bounds, most=bounds, long=bounds)
def test_a_long_sentence_without_company_of_half_its_length_goes_alone(
    lengths: list[int], budget: int, most: int, long: int
) -> None:
    batches = list(batches_by_length(lengths, budget, most, long))
    shared = list(batches_by_length(lengths, budget, most))
    assert list(chain(*batches)) == list(chain(*shared))
    for first, second, *_ in (batch for batch in batches if len(batch) > 1):
        assert lengths[first] <= max(long, 2 * lengths[second])
    for batch, following in pairwise(batches):
        full = len(batch) == most or sum(lengths[i] for i in [*batch, following[0]]) > budget
        assert full or lengths[batch[0]] > max(long, 2 * lengths[following[0]])


# Tokens


def test_each_token_is_listed_once_in_order_of_appearance() -> None:
    tokens, rows = index_tokens([["b", "a", "b"], [], ["c", "a"]])
    assert tokens == ["b", "a", "c"]
    assert rows.tolist() == [[0, 1, 0], [-1, -1, -1], [2, 1, -1]]


def test_no_sentences_have_no_tokens() -> None:
    tokens, rows = index_tokens([])
    assert tokens == []
    assert rows.shape == (0, 0)
