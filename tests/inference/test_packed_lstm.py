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
from elmo_cli.model.architecture import LstmArchitecture
from elmo_cli.model.lstm import Lstm, LstmState, RunLstm
from tests.support.cell_formulas import WAYS, processor
from tests.support.strategies import random_tensor

SMALL = LstmArchitecture(
    dim=5,
    projection_dim=3,
    n_layers=1,
    cell_clip=0.4,
    proj_clip=0.4,
)


def random_lstm(
    architecture: LstmArchitecture = SMALL, *, projects: bool = True
) -> Lstm:
    size = architecture.projection_dim if projects else architecture.dim
    lstm = Lstm(replace(architecture, projection_dim=size), projects=projects)
    for index, weight in enumerate(lstm.parameters()):
        values = random_tensor(*weight.shape, seed=index)
        # gates open, clips are reached
        weight.data = 1.5 * values / weight.shape[-1] ** 0.5
    return lstm


def results(
    run: RunLstm, lstm: Lstm, sizes: Sequence[int], n_more: int = 0
) -> list[Tensor]:
    """Return the hidden and final states, and gradients of a random sum of them."""
    width = lstm.architecture.projection_dim
    n_sentences = sizes[0] + n_more
    inputs = random_tensor(sum(sizes), width, seed=9).requires_grad_()
    hidden = random_tensor(n_sentences, width, seed=10).requires_grad_()
    cell = random_tensor(n_sentences, lstm.architecture.dim, seed=11).requires_grad_()
    outputs, ended = lstm(inputs, sizes, LstmState(hidden, cell), run)

    tensors = [outputs, ended.hidden, ended.cell]
    weighted = []
    for index, values in enumerate(tensors):
        factors = random_tensor(*values.shape, seed=20 + index)
        weighted.append((values * factors).flatten())
    total = torch.cat(weighted).sum()
    leaves = [inputs, hidden, cell, *lstm.parameters()]
    gradients = torch.autograd.grad(total, leaves)
    return [*tensors, *gradients]


clips = st.sampled_from([None, 0, 0.1, 0.4, 3.0])


@pytest.mark.parametrize("capability", WAYS)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    n_more=st.integers(0, 2),
    architecture=st.builds(
        LstmArchitecture,
        dim=st.integers(1, 40),
        projection_dim=st.integers(1, 6),
        n_layers=st.just(1),
        cell_clip=clips,
        proj_clip=clips,
    ),
    projects=st.booleans(),
)
def test_outputs_and_gradients_equal_the_readable_lstm(
    capability: str,
    sizes: list[int],
    n_more: int,
    architecture: LstmArchitecture,
    projects: bool,
) -> None:
    sizes = sorted(sizes, reverse=True)
    lstm = random_lstm(architecture, projects=projects)
    expected = results(Lstm.by_steps, lstm, sizes, n_more)
    with processor(capability):
        values = results(run_packed, lstm, sizes, n_more)
    # The outputs and the final state come first, then the gradients.
    for value, other in zip(values[:3], expected[:3], strict=True):
        assert_allclose(value.detach(), other.detach(), atol=1e-6, rtol=0)
    for gradient, other in zip(values[3:], expected[3:], strict=True):
        largest = float(other.abs().max())
        assert_allclose(gradient, other, atol=1e-5 * (1 + largest), rtol=0)


def test_gradients_of_gradients_are_an_error() -> None:
    inputs = random_tensor(3, 3).requires_grad_()
    outputs, _ = random_lstm()(inputs, [2, 1], run=run_packed)
    with pytest.raises(ElmoError, match=r"^the LSTM: .* Remove create_graph=True\.$"):
        torch.autograd.grad(outputs.sum(), inputs, create_graph=True)


def test_a_second_backward_pass_is_possible() -> None:
    lstm = random_lstm()
    inputs = random_tensor(3, 3)
    outputs, _ = lstm(inputs, [2, 1], run=run_packed)
    total = outputs.sum()
    weight = lstm.gates.weight
    (first,) = torch.autograd.grad(total, weight, retain_graph=True)
    (second,) = torch.autograd.grad(total, weight, retain_graph=True)
    assert torch.equal(first, second)


@pytest.mark.parametrize("projects", [True, False])
@pytest.mark.parametrize("capability", WAYS)
def test_autocast_is_as_precise_as_in_the_readable_lstm(
    capability: str, projects: bool
) -> None:
    architecture = LstmArchitecture(
        dim=40,
        projection_dim=12,
        n_layers=1,
        cell_clip=3.0,
        proj_clip=3.0,
    )
    lstm = random_lstm(architecture, projects=projects)
    sizes = [4, 4, 3, 1]
    whole = results(Lstm.by_steps, lstm, sizes)
    with processor(capability), torch.autocast("cpu", torch.bfloat16):
        readable = results(Lstm.by_steps, lstm, sizes)
        fast = results(run_packed, lstm, sizes)
    assert fast[0].dtype == torch.bfloat16
    assert fast[2].dtype == torch.float32  # cells add up step after step
    for value, other, exact in zip(fast, readable, whole, strict=True):
        error = (value - exact).norm() / exact.norm()
        readable_error = (other - exact).norm() / exact.norm()
        assert 0 < error < 2 * readable_error + 0.002


def test_gradients_have_the_memory_layout_of_their_weights() -> None:
    lstm = random_lstm()
    expected = results(run_packed, lstm, [2, 1])
    assert lstm.projection is not None
    for weight in (lstm.gates.weight, lstm.projection.weight):
        weight.data = weight.data.t().contiguous().t()  # as they come from files
    values = results(run_packed, lstm, [2, 1])
    torch.testing.assert_close(values, expected)
    of_gates = values[6]
    of_projection = values[8]
    assert of_gates.stride() == (1, 20)
    assert of_projection.stride() == (1, 3)


def test_without_gradients_the_packed_lstm_has_the_bits_of_the_readable_one() -> None:
    lstm = random_lstm()
    inputs = random_tensor(3, 3)
    with torch.no_grad():
        outputs, ended = lstm(inputs, [2, 1], run=run_packed)
        expected, expected_end = lstm(inputs, [2, 1])
    assert torch.equal(outputs, expected)
    assert torch.equal(ended.cell, expected_end.cell)
