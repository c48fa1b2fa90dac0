"""How sentences of different lengths lie packed, step after step."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from elmo_cli.model.lstm import pack

lengths_of_sentences = st.lists(st.integers(0, 7), max_size=8)


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
