"""Losses, compared with the readable biLM, with whole streams, and with figures by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options_file import parse_options
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training import loss as losses
from elmo_cli.training.batches import Piece, Row, make_batch
from elmo_cli.training.objective import Objective
from elmo_cli.training.optimizer import learning_rate_at, make_optimizer
from elmo_cli.training.training_options import TrainingOptions
from tests.support.cell_formulas import WAYS, processor
from tests.support.strategies import architectures, random_tensor, small_architecture

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
SENTENCES = [["a", "b", "x", "c"], ["c"], ["b", "a"], ["c", "c", "a"]]


def objective(content: dict[str, object] | None = None, seed: int = 0) -> Objective:
    torch.manual_seed(seed)
    bilm = BiLm(parse_options(content or small_architecture()), VOCABULARY)
    softmax = losses.Softmax(len(VOCABULARY), bilm.options.lstm.projection_dim)
    torch.nn.init.normal_(softmax.bias)
    return Objective(bilm, softmax).eval()


def whole(sentences: list[list[str]]) -> list[Row]:
    return [[Piece(sentence, 0, len(sentence) + 1)] for sentence in sentences]


@given(architectures(), st.integers(0, 100))
def test_loss_equals_the_readable_bilm(content: dict[str, object], seed: int) -> None:
    model = objective(content, seed)
    with torch.no_grad():
        forward, backward, _ = model(make_batch(whole(SENTENCES), VOCABULARY))
        expected = [0.0, 0.0]
        for sentence in SENTENCES:
            top = model.bilm(model.bilm.sentence_ids([sentence])).layers[
                -1, 0
            ]  # (T + 2, 2 P)
            ahead, behind = top.chunk(2, dim=1)
            words = torch.tensor(VOCABULARY.indices(["<S>", *sentence, "</S>"]))
            expected[0] += float(model.softmax(ahead[:-1], words[1:]).sum())
            expected[1] += float(model.softmax(behind[1:], words[:-1]).sum())
    np.testing.assert_allclose([forward, backward], expected, rtol=1e-5)


@pytest.mark.parametrize("unroll", [1, 2, 3])
def test_loss_of_blocks_equals_the_whole_stream(unroll: int) -> None:
    model = objective()
    sentence = list("abcabcaab")
    long = [Piece(sentence, 0, 10)]
    other = [Piece(sentence[:4], 0, 5), Piece(sentence[4:], 0, 5)]
    with torch.no_grad():
        expected, *_ = model(make_batch([long], VOCABULARY))
        total = 0.0
        state = None
        for start in range(0, 10, unroll):
            stop = min(start + unroll, 10)
            block = make_batch([[Piece(sentence, start, stop)]], VOCABULARY)
            forward, _, state = model(block, state)
            total += float(forward)
        assert abs(total - float(expected)) < 1e-4
        # In a stream, the sentence after another does not start from zero.
        in_stream, *_ = model(make_batch([other], VOCABULARY))
        apart, *_ = model(make_batch([[piece] for piece in other], VOCABULARY))
        assert abs(float(in_stream) - float(apart)) > 1e-3


def test_each_row_keeps_its_own_state() -> None:
    model = objective()
    rows = whole(SENTENCES)
    with torch.no_grad():
        *_, together = model(make_batch(rows, VOCABULARY))
        for n, row in enumerate(rows):
            *_, alone = model(make_batch([row], VOCABULARY))
            for layer, one in zip(together, alone, strict=True):
                assert_close(
                    layer.forward.cell[n], one.forward.cell[0], atol=1e-6, rtol=0
                )
                assert_close(
                    layer.backward.hidden[n], one.backward.hidden[0], atol=1e-6, rtol=0
                )


def test_empty_row_keeps_its_state_without_a_loss() -> None:
    model = objective()
    with torch.no_grad():
        *_, first = model(make_batch(whole(SENTENCES[:2]), VOCABULARY))
        rows: list[Row] = [[], [Piece(["a"], 0, 2)]]
        *_, after = model(make_batch(rows, VOCABULARY), first)
        assert after[0].forward.cell[0].equal(first[0].forward.cell[0])
        forward, backward, state = model(make_batch([[], []], VOCABULARY), first)
    assert (float(forward), float(backward)) == (0, 0)
    assert state is first


def test_samples_are_distinct_and_repeatable() -> None:
    draws = [
        losses.draw_words(50, 20, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    for words, n_draws in draws:
        assert len(set(words.tolist())) == 20
        assert 0 <= words.min() <= words.max() < 50
        assert n_draws >= 20
    assert draws[0].words.equal(draws[1].words)
    assert not draws[0].words.equal(draws[2].words)


def test_samples_have_the_expected_frequencies() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = np.zeros(12)
    expected = np.zeros(12)
    n_turns = 1500
    probability = np.log1p(1 / np.arange(1, 13)) / np.log(13)
    for _ in range(n_turns):
        words, n_draws = losses.draw_words(12, 5, generator)
        counts[words] += 1
        expected += 1 - (1 - probability) ** n_draws
    assert abs(probability.sum() - 1) < 1e-12
    # The expected count, given the number of draws, is TensorFlow's approximation.
    assert np.abs(counts - expected).max() / n_turns < 0.05


@pytest.mark.parametrize("capability", WAYS)
@given(st.integers(1, 30), st.integers(1, 50), st.integers(0, 100), st.booleans())
def test_sampled_softmax_equals_autograd(
    capability: str, n: int, n_samples: int, seed: int, short: bool
) -> None:
    softmax = losses.Softmax(60, 7)
    for number, weight in enumerate(softmax.parameters()):
        weight.data = random_tensor(*weight.shape, seed=seed + number)
    context = random_tensor(n, 7, seed=seed + 2).requires_grad_()
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(60, (n,), generator=generator)
    samples = losses.draw_words(60, n_samples, generator)
    shares = random_tensor(n, seed=seed + 3)
    leaves = [context, *softmax.parameters()]

    words = torch.arange(60.0)
    probability = torch.log((words + 2) / (words + 1)) / math.log(61)
    bias = (
        softmax.bias
        - torch.log(1 - (1 - probability.double()) ** samples.n_draws).float()
    )
    logits = context @ softmax.weight.t() + bias  # (n, 60)
    counted = torch.zeros(n, 60, dtype=torch.bool)
    counted[:, samples.words] = True
    counted[range(n), targets] = True
    total = logits.masked_fill(~counted, -math.inf).logsumexp(dim=1)
    expected = total - logits[range(n), targets]
    with processor(capability), torch.autocast("cpu", torch.bfloat16, enabled=short):
        loss = softmax(context, targets, samples)
        gradients = torch.autograd.grad((loss * shares).sum(), leaves)
    bound = 0.1 if short else 1e-5
    assert_close(loss, expected, atol=bound, rtol=bound)
    references = torch.autograd.grad((expected * shares).sum(), leaves)
    for gradient, reference in zip(gradients, references, strict=True):
        assert_close(gradient, reference, atol=bound, rtol=bound)


def test_sampled_loss_is_zero_if_all_samples_are_targets() -> None:
    softmax = losses.Softmax(9, 4)
    context = torch.randn(1, 4, requires_grad=True)
    loss = softmax(context, torch.tensor([2]), losses.Samples(torch.tensor([2]), 1))
    loss.sum().backward()
    assert loss.item() == 0
    assert context.grad is not None
    assert context.grad.isfinite().all()


def test_adagrad_steps_equal_tensorflows() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    options = TrainingOptions(optimizer="adagrad", learning_rate=0.2)
    optimizer = make_optimizer([weight], options)
    total = np.ones(2)
    expected = np.array([1.0, -2.0])
    for gradient in (np.array([3.0, 0.5]), np.array([-1.0, 2.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        total += gradient**2
        expected -= 0.2 * gradient / np.sqrt(total)
    np.testing.assert_allclose(weight.detach(), expected, rtol=1e-6)


def test_learning_rate_rises_stays_and_falls() -> None:
    options = TrainingOptions(
        steps=100, learning_rate=2.0, warmup_steps=4, decay_share=0.2
    )
    rates, are_rising = zip(
        *(learning_rate_at(step, step / 100, options) for step in range(100)),
        strict=True,
    )
    assert rates[:5] == (0.5, 1.0, 1.5, 2.0, 2.0)
    assert are_rising == (True,) * 3 + (False,) * 97
    assert set(rates[4:80]) == {2.0}
    np.testing.assert_allclose(rates[80:], 2 * np.linspace(1, 0.05, 20))
    constant = replace(options, warmup_steps=0, decay_share=0.0)
    assert learning_rate_at(99, 0.99, constant) == (2.0, False)
    # A short run warms up over a tenth of its steps.
    short = replace(constant, steps=None, learning_rate=1.0, warmup_steps=200)
    assert [learning_rate_at(n, n / 100, short)[0] for n in (5, 10)] == [
        0.5,
        1.0,
    ]
