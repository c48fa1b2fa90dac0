"""The packed LSTM, and its fast differentiable form against the readable one, in C and without."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from cell_formulas import WAYS, processor
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_tensor
from torch import Tensor

from elmo_cli.errors import ElmoError
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


clips = st.sampled_from([None, 0, 0.1, 0.4, 3.0])
all_sizes = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(
    lambda sizes: sorted(sizes, reverse=True)
)


def random_lstm(
    dim: int = 5,
    size: int = 3,
    cell_clip: float | None = 0.4,
    proj_clip: float | None = 0.4,
    *,
    projects: bool = True,
) -> Lstm:
    lstm = Lstm(
        LstmOptions(dim, size if projects else dim, 1, cell_clip, proj_clip), projects=projects
    )
    for number, weight in enumerate(lstm.parameters()):
        values = random_tensor(*weight.shape, seed=number)
        weight.data = 1.5 * values / weight.shape[-1] ** 0.5  # gates open, clips are reached
    return lstm


def results(lstm: Lstm, sizes: Sequence[int], n_more: int = 0, *, by_steps: bool) -> list[Tensor]:
    """Return the hidden states, the final states, and the gradients of a random sum of all."""
    dtype = lstm.gates.weight.dtype
    width, dim = lstm.options.projection_dim, lstm.options.dim
    n = sizes[0] + n_more
    shapes = (sum(sizes), width), (n, width), (n, dim)
    arguments = [random_tensor(*shape, seed=9 + i).to(dtype) for i, shape in enumerate(shapes)]
    inputs, *state = [values.requires_grad_() for values in arguments]
    run = lstm.by_steps if by_steps else lstm
    outputs, ended = run(inputs, sizes, LstmState(*state))
    tensors = [outputs, *ended]
    total = sum(
        (values * random_tensor(*values.shape, seed=20 + i)).sum()
        for i, values in enumerate(tensors)
    )
    assert isinstance(total, Tensor)
    return [*tensors, *torch.autograd.grad(total, [*arguments, *lstm.parameters()])]


@pytest.mark.parametrize("capability", WAYS)
@given(
    sizes=all_sizes,
    n_more=st.integers(0, 2),
    dim=st.integers(1, 40),
    size=st.integers(1, 6),
    cell_clip=clips,
    proj_clip=clips,
    projects=st.booleans(),
)
def test_outputs_and_gradients_equal_the_readable_lstm(
    capability: str,
    sizes: list[int],
    n_more: int,
    dim: int,
    size: int,
    cell_clip: float | None,
    proj_clip: float | None,
    projects: bool,
) -> None:
    lstm = random_lstm(dim, size, cell_clip, proj_clip, projects=projects)
    expected = results(lstm, sizes, n_more, by_steps=True)
    with processor(capability):
        values = results(lstm, sizes, n_more, by_steps=False)
    for number, (value, reference) in enumerate(zip(values, expected, strict=True)):
        bound = 1e-6 if number < 3 else 1e-5 * (1 + float(reference.abs().max()))
        np.testing.assert_allclose(value.detach(), reference.detach(), atol=bound, rtol=0)


def test_gradients_of_gradients_are_refused() -> None:
    inputs = random_tensor(3, 3).requires_grad_()
    outputs, _ = random_lstm()(inputs, [2, 1])
    with pytest.raises(ElmoError, match=r"^the LSTM: .* Remove create_graph=True\.$"):
        torch.autograd.grad(outputs.sum(), inputs, create_graph=True)


def test_a_second_backward_pass_is_possible() -> None:
    lstm, inputs = random_lstm(), random_tensor(3, 3)
    total = lstm(inputs, [2, 1])[0].sum()
    first, second = (
        torch.autograd.grad(total, lstm.gates.weight, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("projects", [True, False])
@pytest.mark.parametrize("capability", WAYS)
def test_autocast_is_as_precise_as_in_the_readable_lstm(capability: str, projects: bool) -> None:
    lstm = random_lstm(40, 12, 3.0, 3.0, projects=projects)
    sizes = [4, 4, 3, 1]
    exact = results(lstm, sizes, by_steps=True)
    with processor(capability), torch.autocast("cpu", torch.bfloat16):
        readable, fast = (results(lstm, sizes, by_steps=way) for way in (True, False))
    assert fast[0].dtype == torch.bfloat16
    assert fast[2].dtype == torch.float32  # cells add up step after step
    for value, other, reference in zip(fast, readable, exact, strict=True):
        error, its_error = ((v - reference).norm() / reference.norm() for v in (value, other))
        assert 0 < error < 2 * its_error + 0.002


def test_gradients_have_the_memory_layout_of_their_weights() -> None:
    lstm = random_lstm()
    expected = results(lstm, [2, 1], by_steps=False)
    for weight in (lstm.gates.weight, lstm.projection.weight):  # type: ignore[union-attr]
        weight.data = weight.data.t().contiguous().t()  # as they come from files
    values = results(lstm, [2, 1], by_steps=False)
    for value, reference in zip(values, expected, strict=True):
        torch.testing.assert_close(value, reference)
    assert [values[6].stride(), values[8].stride()] == [(1, 20), (1, 3)]
