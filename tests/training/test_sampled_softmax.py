"""The sampled softmax: its draws and its loss, by hand and by counting."""

import math

import numpy as np
import torch

from elmo_cli.training.sampled_softmax import Samples, draw_words, sampled_loss
from elmo_cli.training.softmax import Predictions, Softmax


def test_samples_are_distinct_words_and_the_same_for_a_seed() -> None:
    draws = [draw_words(50, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    for words, n_draws in draws:
        assert len(set(words.tolist())) == 20
        assert 0 <= words.min() <= words.max() < 50
        assert n_draws >= 20
    assert draws[0].words.equal(draws[1].words)
    assert not draws[0].words.equal(draws[2].words)


def test_words_are_drawn_as_often_as_the_loss_expects() -> None:
    generator = torch.Generator().manual_seed(0)
    counts, expected, n_turns = np.zeros(12), np.zeros(12), 4000
    probability = np.log1p(1 / np.arange(1, 13)) / np.log(13)
    for _ in range(n_turns):
        words, n_draws = draw_words(12, 5, generator)
        counts[words] += 1
        expected += 1 - (1 - probability) ** n_draws
    assert abs(probability.sum() - 1) < 1e-12
    # The expected count, given the number of draws, is TensorFlow's approximation.
    assert np.abs(counts - expected).max() / n_turns < 0.03


def test_the_loss_is_that_of_a_softmax_over_target_and_samples() -> None:
    torch.manual_seed(0)
    softmax = Softmax(9, 4)
    torch.nn.init.normal_(softmax.bias)
    context, targets = torch.randn(3, 4), torch.tensor([7, 2, 0])
    words, n_draws = [2, 0, 5], 6
    softmax.requires_grad_(False)
    found = sampled_loss(
        softmax, Predictions(context, targets), Samples(torch.tensor(words), n_draws)
    )

    def logit(row: int, word: int) -> float:
        score = float(context[row] @ softmax.weight[word] + softmax.bias[word])
        p = math.log((word + 2) / (word + 1)) / math.log(10)
        return score - math.log(1 - (1 - p) ** n_draws)

    for row, target in enumerate(targets.tolist()):
        others = [logit(row, word) for word in words if word != target]
        own = logit(row, target)
        expected = math.log(sum(map(math.exp, [own, *others]))) - own
        assert abs(float(found[row]) - expected) < 1e-5


def test_gradients_reach_the_drawn_words_and_the_targets_alone() -> None:
    softmax = Softmax(9, 4)
    predictions = Predictions(torch.randn(2, 4), torch.tensor([7, 2]))
    loss = sampled_loss(softmax, predictions, Samples(torch.tensor([2, 5]), 3))
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert softmax.weight.grad is not None
    touched = softmax.weight.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()
    assert touched == [2, 5, 7]


def test_where_all_samples_are_the_target_nothing_is_to_be_told_apart() -> None:
    softmax = Softmax(9, 4)
    context = torch.randn(1, 4, requires_grad=True)
    loss = sampled_loss(
        softmax, Predictions(context, torch.tensor([2])), Samples(torch.tensor([2]), 1)
    )
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert context.grad is not None
    assert context.grad.isfinite().all()
