import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from elmo_cli.model.lstm import Lstm, LstmState, clip, pack
from elmo_cli.model.options import LstmOptions


def small_lstm(
    cell_clip: float | None = None, proj_clip: float | None = None, *, projects: bool = True
) -> Lstm:
    torch.manual_seed(0)
    options = LstmOptions(4, 3 if projects else 4, 1, cell_clip, proj_clip)
    lstm = Lstm(options, projects=projects).requires_grad_(False)
    lstm.gates.weight.normal_()
    return lstm


def one_cell(*biases: float, cell_clip: float | None = None) -> Lstm:
    """An LSTM of one cell whose gates i, j, f, o depend on nothing but their biases."""
    lstm = Lstm(LstmOptions(1, 1, 1, cell_clip), projects=False).requires_grad_(False)
    lstm.gates.weight.zero_()
    lstm.gates.bias.copy_(torch.tensor(biases))
    return lstm


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def start(cell: float) -> LstmState:
    return LstmState(torch.zeros(1, 1), torch.tensor([[cell]]))


def test_one_step_is_the_formula_written_out() -> None:
    outputs, ended = one_cell(0.3, -0.7, 0.2, 1.1)(torch.zeros(1, 1), [1], start(0.5))
    cell = sigmoid(0.3) * math.tanh(-0.7) + sigmoid(0.2 + 1.0) * 0.5
    assert ended.cell.item() == pytest.approx(cell)
    assert outputs.item() == pytest.approx(sigmoid(1.1) * math.tanh(cell))
    assert torch.equal(ended.hidden, outputs)


def test_a_cell_is_clipped_before_its_output_and_before_the_next_step() -> None:
    lstm = one_cell(9.0, 9.0, 9.0, 0.0, cell_clip=0.5)
    outputs, ended = lstm(torch.zeros(2, 1), [1, 1], start(3.0))
    assert ended.cell.item() == 0.5
    assert outputs.flatten().tolist() == pytest.approx([0.5 * math.tanh(0.5)] * 2)


def test_the_clipped_output_is_what_the_next_step_reads() -> None:
    lstm = small_lstm(proj_clip=0.05)
    outputs, ended = lstm(torch.randn(6, 3), [1] * 6)
    assert outputs.abs().max() == pytest.approx(0.05)
    assert torch.equal(ended.hidden, outputs[-1:])


@pytest.mark.parametrize("bound", [None, 0, 0.0, 2])
def test_a_bound_holds_both_ends_and_one_of_0_is_none(bound: float | None) -> None:
    held = bound or 7
    assert clip(torch.tensor([-7, 0.5, 7]), bound).tolist() == [-held, 0.5, held]


@pytest.mark.parametrize("projects", [True, False])
def test_packed_sequences_run_as_each_does_alone(projects: bool) -> None:
    lstm = small_lstm(cell_clip=0.4, projects=projects)
    size = lstm.options.projection_dim
    # Steps of the sequences a, b, c, packed as in the module's docstring.
    a, b, c = torch.randn(3, size), torch.randn(2, size), torch.randn(1, size)
    packed = torch.stack([a[0], b[0], c[0], a[1], b[1], a[2]])
    states = LstmState(torch.randn(3, size), torch.randn(3, 4))
    outputs, ended = lstm(packed, [3, 2, 1], states)
    for row, (sequence, rows) in enumerate(((a, [0, 3, 5]), (b, [1, 4]), (c, [2]))):
        alone = LstmState(states.hidden[row : row + 1], states.cell[row : row + 1])
        expected, expected_state = lstm(sequence, [1] * len(sequence), alone)
        assert_allclose(outputs[rows], expected, atol=1e-6)
        assert_allclose(ended.hidden[row], expected_state.hidden[0], atol=1e-6)
        assert_allclose(ended.cell[row], expected_state.cell[0], atol=1e-6)


def test_no_state_is_the_zero_state() -> None:
    lstm = small_lstm()
    inputs = torch.randn(3, 3)
    outputs, _ = lstm(inputs, [2, 1])
    from_zero, _ = lstm(inputs, [2, 1], LstmState(torch.zeros(2, 3), torch.zeros(2, 4)))
    assert torch.equal(outputs, from_zero)


def test_sequences_without_steps_end_where_they_start() -> None:
    lstm = small_lstm()
    states = LstmState(torch.randn(2, 3), torch.randn(2, 4))
    outputs, ended = lstm(torch.zeros(0, 3), [], states)
    assert outputs.shape == (0, 3)
    assert torch.equal(ended.hidden, states.hidden)
    assert torch.equal(ended.cell, states.cell)


def test_the_given_state_is_left_as_it_is() -> None:
    lstm = small_lstm(cell_clip=0.1)
    states = LstmState(torch.randn(2, 3), torch.randn(2, 4))
    before = LstmState(*(values.clone() for values in states))
    lstm(torch.randn(3, 3), [2, 1], states)
    assert torch.equal(states.hidden, before.hidden)
    assert torch.equal(states.cell, before.cell)


# How sentences of different lengths lie packed


@given(lengths=st.lists(st.integers(0, 7), max_size=8))
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
