"""The packed LSTM, in C and in torch, against the readable one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.inference.packed_lstm import run_packed
from elmo_cli.model.lstm import Lstm, LstmState, RunLstm
from elmo_cli.model.options import LstmOptions
from tests.support.cell_formulas import WAYS, processor
from tests.support.strategies import random_tensor

SMALL = LstmOptions(5, 3, 1, cell_clip=0.4, proj_clip=0.4)


def random_lstm(options: LstmOptions = SMALL, *, projects: bool = True) -> Lstm:
    size = options.projection_dim if projects else options.dim
    lstm = Lstm(replace(options, projection_dim=size), projects=projects)
    for number, weight in enumerate(lstm.parameters()):
        values = random_tensor(*weight.shape, seed=number)
        # gates open, clips are reached
        weight.data = 1.5 * values / weight.shape[-1] ** 0.5
    return lstm


def results(
    run: RunLstm, lstm: Lstm, sizes: Sequence[int], n_more: int = 0
) -> list[Tensor]:
    """Return the hidden states, the final states, and the gradients of a random sum of all."""
    width = lstm.options.projection_dim
    dim = lstm.options.dim
    n = sizes[0] + n_more
    shapes = (sum(sizes), width), (n, width), (n, dim)
    arguments = [random_tensor(*shape, seed=9 + i) for i, shape in enumerate(shapes)]
    inputs, *state = [values.requires_grad_() for values in arguments]
    outputs, ended = lstm(inputs, sizes, LstmState(*state), run)
    tensors = [outputs, *ended]
    weighted = [v * random_tensor(*v.shape, seed=20 + i) for i, v in enumerate(tensors)]
    total = torch.cat([values.flatten() for values in weighted]).sum()
    return [*tensors, *torch.autograd.grad(total, [*arguments, *lstm.parameters()])]


clips = st.sampled_from([None, 0, 0.1, 0.4, 3.0])


@pytest.mark.parametrize("capability", WAYS)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    n_more=st.integers(0, 2),
    options=st.builds(
        LstmOptions, st.integers(1, 40), st.integers(1, 6), st.just(1), clips, clips
    ),
    projects=st.booleans(),
)
def test_outputs_and_gradients_equal_the_readable_lstm(
    capability: str, sizes: list[int], n_more: int, options: LstmOptions, projects: bool
) -> None:
    sizes = sorted(sizes, reverse=True)
    lstm = random_lstm(options, projects=projects)
    expected = results(Lstm.by_steps, lstm, sizes, n_more)
    with processor(capability):
        values = results(run_packed, lstm, sizes, n_more)
    for number, (value, other) in enumerate(zip(values, expected, strict=True)):
        bound = 1e-6 if number < 3 else 1e-5 * (1 + float(other.abs().max()))
        assert_allclose(value.detach(), other.detach(), atol=bound, rtol=0)


def test_gradients_of_gradients_are_refused() -> None:
    inputs = random_tensor(3, 3).requires_grad_()
    outputs, _ = random_lstm()(inputs, [2, 1], run=run_packed)
    with pytest.raises(ElmoError, match=r"^the LSTM: .* Remove create_graph=True\.$"):
        torch.autograd.grad(outputs.sum(), inputs, create_graph=True)


def test_a_second_backward_pass_is_possible() -> None:
    lstm = random_lstm()
    inputs = random_tensor(3, 3)
    total = lstm(inputs, [2, 1], run=run_packed)[0].sum()
    first, second = (
        torch.autograd.grad(total, lstm.gates.weight, retain_graph=True)[0]
        for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("projects", [True, False])
@pytest.mark.parametrize("capability", WAYS)
def test_autocast_is_as_precise_as_in_the_readable_lstm(
    capability: str, projects: bool
) -> None:
    lstm = random_lstm(LstmOptions(40, 12, 1, 3.0, 3.0), projects=projects)
    sizes = [4, 4, 3, 1]
    whole = results(Lstm.by_steps, lstm, sizes)
    with processor(capability), torch.autocast("cpu", torch.bfloat16):
        readable = results(Lstm.by_steps, lstm, sizes)
        fast = results(run_packed, lstm, sizes)
    assert fast[0].dtype == torch.bfloat16
    assert fast[2].dtype == torch.float32  # cells add up step after step
    for value, other, exact in zip(fast, readable, whole, strict=True):
        error, its_error = ((v - exact).norm() / exact.norm() for v in (value, other))
        assert 0 < error < 2 * its_error + 0.002


def test_gradients_have_the_memory_layout_of_their_weights() -> None:
    lstm = random_lstm()
    expected = results(run_packed, lstm, [2, 1])
    for weight in (lstm.gates.weight, lstm.projection.weight):  # type: ignore[union-attr]
        weight.data = weight.data.t().contiguous().t()  # as they come from files
    values = results(run_packed, lstm, [2, 1])
    torch.testing.assert_close(values, expected)
    assert [values[6].stride(), values[8].stride()] == [(1, 20), (1, 3)]


def test_without_gradients_it_is_the_readable_lstm() -> None:
    lstm = random_lstm()
    inputs = random_tensor(3, 3)
    with torch.no_grad():
        outputs, ended = lstm(inputs, [2, 1], run=run_packed)
        expected, expected_end = lstm(inputs, [2, 1])
    assert torch.equal(outputs, expected)
    assert torch.equal(ended.cell, expected_end.cell)
