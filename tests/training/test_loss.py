"""Losses, compared with the readable biLM, whole streams, and hand figures."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options_json import parse_architecture
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training import loss as losses
from elmo_cli.training.batches import Piece, Row, make_batch
from elmo_cli.training.objective import Objective
from elmo_cli.training.optimizer import learning_rate_at, make_optimizer
from elmo_cli.training.training_settings import TrainingSettings
from tests.support.cell_formulas import WAYS, processor
from tests.support.strategies import architectures, random_tensor, small_architecture

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
SENTENCES = [["a", "b", "x", "c"], ["c"], ["b", "a"], ["c", "c", "a"]]


def objective(content: dict[str, object] | None = None, seed: int = 0) -> Objective:
    torch.manual_seed(seed)
    bilm = BiLm(parse_architecture(content or small_architecture()), VOCABULARY)
    softmax = losses.OutputLayer(len(VOCABULARY), bilm.architecture.lstm.projection_dim)
    torch.nn.init.normal_(softmax.bias)
    return Objective(bilm, softmax).eval()


def whole(sentences: list[list[str]]) -> list[Row]:
    return [[Piece(sentence, 0, len(sentence) + 1)] for sentence in sentences]


@given(architectures(), st.integers(0, 100))
def test_loss_matches_the_readable_bilm(content: dict[str, object], seed: int) -> None:
    model = objective(content, seed)
    with torch.no_grad():
        forward, backward, _ = model(make_batch(whole(SENTENCES), VOCABULARY))
        expected_forward = 0.0
        expected_backward = 0.0
        for sentence in SENTENCES:
            ids = model.bilm.sentence_ids([sentence])
            top = model.bilm(ids).layers[-1, 0]  # (T + 2, 2 P)
            ahead, behind = top.chunk(2, dim=1)
            words = torch.tensor(VOCABULARY.indices(["<S>", *sentence, "</S>"]))
            expected_forward += float(model.softmax(ahead[:-1], words[1:]).sum())
            expected_backward += float(model.softmax(behind[1:], words[:-1]).sum())
    assert float(forward) == pytest.approx(expected_forward, rel=1e-5)
    assert float(backward) == pytest.approx(expected_backward, rel=1e-5)


@pytest.mark.parametrize("unroll", [1, 2, 3])
def test_loss_of_blocks_adds_up_to_the_whole_stream(unroll: int) -> None:
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
        rows = [[piece] for piece in other]
        apart, *_ = model(make_batch(rows, VOCABULARY))
        assert abs(float(in_stream) - float(apart)) > 1e-3


def test_each_row_keeps_its_own_state() -> None:
    model = objective()
    rows = whole(SENTENCES)
    with torch.no_grad():
        *_, together = model(make_batch(rows, VOCABULARY))
        for n, row in enumerate(rows):
            *_, alone = model(make_batch([row], VOCABULARY))
            for layer, one in zip(together, alone, strict=True):
                cell = layer.forward.cell[n]
                hidden = layer.backward.hidden[n]
                assert_close(cell, one.forward.cell[0], atol=1e-6, rtol=0)
                assert_close(hidden, one.backward.hidden[0], atol=1e-6, rtol=0)


def test_empty_row_keeps_its_state_without_a_loss() -> None:
    model = objective()
    with torch.no_grad():
        *_, first = model(make_batch(whole(SENTENCES[:2]), VOCABULARY))
        rows: list[Row] = [[], [Piece(["a"], 0, 2)]]
        *_, after = model(make_batch(rows, VOCABULARY), first)
        assert after[0].forward.cell[0].equal(first[0].forward.cell[0])
        forward, backward, state = model(make_batch([[], []], VOCABULARY), first)
    assert float(forward) == 0
    assert float(backward) == 0
    assert state is first


def draw(seed: int) -> losses.SampledWords:
    """Draw 20 of 50 words."""
    generator = torch.Generator().manual_seed(seed)
    return losses.draw_words(50, 20, generator)


def test_samples_are_distinct_and_reproducible() -> None:
    first = draw(seed=1)
    again = draw(seed=1)
    other = draw(seed=2)
    for words, n_draws in (first, again, other):
        assert len(set(words.tolist())) == 20
        assert words.min() >= 0
        assert words.max() < 50
        assert n_draws >= 20
    assert again.words.equal(first.words)
    assert not other.words.equal(first.words)


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


def sampled_loss_by_formula(
    softmax: losses.OutputLayer,
    context: torch.Tensor,
    targets: torch.Tensor,
    samples: losses.SampledWords,
) -> torch.Tensor:
    """Return the sampled loss from the logits of all words."""
    n_words = len(softmax.bias)
    n = len(targets)
    words = torch.arange(float(n_words))
    probability = torch.log((words + 2) / (words + 1)) / math.log(n_words + 1)
    is_drawn = 1 - (1 - probability.double()) ** samples.n_draws
    bias = softmax.bias - torch.log(is_drawn).float()
    logits = context @ softmax.weight.t() + bias  # (n, n_words)
    counted = torch.zeros(n, n_words, dtype=torch.bool)
    counted[:, samples.words] = True
    counted[range(n), targets] = True
    total = logits.masked_fill(~counted, -math.inf).logsumexp(dim=1)
    return total - logits[range(n), targets]


@pytest.mark.parametrize("capability", WAYS)
@given(
    n=st.integers(1, 30),
    n_samples=st.integers(1, 50),
    seed=st.integers(0, 100),
    short=st.booleans(),
)
def test_sampled_softmax_matches_autograd(
    capability: str, n: int, n_samples: int, seed: int, short: bool
) -> None:
    softmax = losses.OutputLayer(60, 7)
    for index, weight in enumerate(softmax.parameters()):
        weight.data = random_tensor(*weight.shape, seed=seed + index)
    context = random_tensor(n, 7, seed=seed + 2).requires_grad_()
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(60, (n,), generator=generator)
    samples = losses.draw_words(60, n_samples, generator)
    shares = random_tensor(n, seed=seed + 3)
    leaves = [context, *softmax.parameters()]

    expected = sampled_loss_by_formula(softmax, context, targets, samples)
    references = torch.autograd.grad((expected * shares).sum(), leaves)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=short)
    with processor(capability), autocast:
        loss = softmax(context, targets, samples)
        gradients = torch.autograd.grad((loss * shares).sum(), leaves)

    bound = 0.1 if short else 1e-5
    assert_close(loss, expected, atol=bound, rtol=bound)
    for gradient, reference in zip(gradients, references, strict=True):
        assert_close(gradient, reference, atol=bound, rtol=bound)


def test_sampled_loss_is_zero_if_all_samples_are_targets() -> None:
    softmax = losses.OutputLayer(9, 4)
    context = torch.randn(1, 4, requires_grad=True)
    target = torch.tensor([2])
    samples = losses.SampledWords(words=target, n_draws=1)
    loss = softmax(context, target, samples)
    loss.sum().backward()
    assert loss.item() == 0
    assert context.grad is not None
    assert context.grad.isfinite().all()


def test_adagrad_steps_match_tensorflow() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    settings = TrainingSettings(optimizer="adagrad", learning_rate=0.2)
    optimizer = make_optimizer([weight], settings)
    total = np.ones(2)
    expected = np.array([1.0, -2.0])
    for gradient in (np.array([3.0, 0.5]), np.array([-1.0, 2.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        total += gradient**2
        expected -= 0.2 * gradient / np.sqrt(total)
    np.testing.assert_allclose(weight.detach(), expected, rtol=1e-6)


def test_learning_rate_rises_stays_and_falls() -> None:
    settings = TrainingSettings(
        steps=100,
        learning_rate=2.0,
        warmup_steps=4,
        decay_share=0.2,
    )
    rates = []
    for step in range(100):
        rate = learning_rate_at(step, share_done=step / 100, settings=settings)
        rates.append(rate.value)
        assert rate.is_rising == (step < 3)
    assert rates[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert set(rates[4:80]) == {2.0}
    np.testing.assert_allclose(rates[80:], 2 * np.linspace(1, 0.05, 20))
    constant = replace(settings, warmup_steps=0, decay_share=0.0)
    last = learning_rate_at(99, share_done=0.99, settings=constant)
    assert last.value == 2.0
    assert not last.is_rising
    # A short run warms up over a tenth of its steps.
    short = replace(constant, steps=None, learning_rate=1.0, warmup_steps=200)
    assert learning_rate_at(5, 0.05, short).value == 0.5
    assert learning_rate_at(10, 0.1, short).value == 1.0
