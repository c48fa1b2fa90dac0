"""The optimizer of a run, and the course of its learning rate."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn, optim

from elmo_cli.training.training_options import TrainingOptions

_WARMUP_SHARE = 0.1
"""Maximum share of the run over which the learning rate rises."""


def make_optimizer(
    parameters: Sequence[nn.Parameter], options: TrainingOptions
) -> optim.Optimizer:
    """Make AdamW, or Adagrad as published."""
    if options.optimizer == "adagrad":
        # TensorFlow's accumulators start at 1, so that the first steps are small.
        return optim.Adagrad(
            parameters, lr=options.learning_rate, initial_accumulator_value=1.0
        )
    return optim.AdamW(
        parameters,
        lr=options.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=options.weight_decay,
        fused=True,
    )


class LearningRate(NamedTuple):
    """Learning rate of a step."""

    value: float
    is_rising: bool
    """True if the rate has not reached its maximum."""


def learning_rate_at(
    step: int, share_done: float, options: TrainingOptions
) -> LearningRate:
    """Return the learning rate of a step.

    It rises over `warmup_steps`, at most a tenth of the run, and falls to 0 over
    `decay_share`.

    Args:
        step: Number of the step, from 0.
        share_done: Share of the run before the step, 0 to 1.
        options: Options of the run.
    """
    rise = 1.0
    if options.warmup_steps:
        share_of_steps = (step + 1) / options.warmup_steps
        rise = min(1.0, max(share_of_steps, share_done / _WARMUP_SHARE))
    fall = 1.0
    if options.decay_share:
        fall = (1 - share_done) / options.decay_share
    return LearningRate(
        value=options.learning_rate * min(rise, fall), is_rising=rise < 1
    )
