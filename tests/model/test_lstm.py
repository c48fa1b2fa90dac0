import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.model.lstm import Lstm, LstmState, pack
from elmo_cli.model.model_options import LstmOptions


def test_the_given_state_is_not_changed() -> None:
    lstm = Lstm(LstmOptions(4, 3, 1, cell_clip=0.1), projects=True).requires_grad_(False)
    states = LstmState(torch.randn(2, 3), torch.randn(2, 4))
    before = LstmState(*(values.clone() for values in states))
    lstm(torch.randn(3, 3), [2, 1], states)
    assert torch.equal(states.hidden, before.hidden)
    assert torch.equal(states.cell, before.cell)


@given(lengths=st.lists(st.integers(0, 7), max_size=8))
def test_sentences_are_packed_step_after_step(lengths: list[int]) -> None:
    order = sorted(range(len(lengths)), key=lambda sentence: -lengths[sentence])
    steps = [[(s, step) for s in order if step < lengths[s]] for step in range(max([0, *lengths]))]
    rows = [row for step in steps for row in step]
    packing = pack(lengths)
    assert packing.order.tolist() == order
    assert list(zip(packing.sentences.tolist(), packing.positions.tolist(), strict=True)) == rows
    assert packing.sizes == [len(step) for step in steps]
    turned = [rows[i] for i in packing.reversal]
    assert turned == [(sentence, lengths[sentence] - 1 - step) for sentence, step in rows]
