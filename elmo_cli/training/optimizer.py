"""The optimizer of a run, and the course of its learning rate."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn, optim

from elmo_cli.training.training_settings import TrainingSettings

_WARMUP_SHARE = 0.1
"""Maximum share of the run over which the learning rate rises."""


def make_optimizer(
    parameters: Sequence[nn.Parameter], settings: TrainingSettings
) -> optim.Optimizer:
    """Make AdamW, or Adagrad as published."""
    if settings.optimizer == "adagrad":
        # TensorFlow's accumulators start at 1, so that the first steps are small.
        return optim.Adagrad(
            parameters, lr=settings.learning_rate, initial_accumulator_value=1.0
        )
    return optim.AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=settings.weight_decay,
        fused=True,
    )


class LearningRate(NamedTuple):
    """Learning rate of a step."""

    value: float
    is_rising: bool
    """True if the rate has not reached its maximum."""


def learning_rate_at(
    step: int, share_done: float, settings: TrainingSettings
) -> LearningRate:
    """Return the learning rate of a step.

    It rises over `warmup_steps`, at most a tenth of the run, and falls to 0 over
    `decay_share`.

    Args:
        step: Index of the step.
        share_done: Share of the run before the step, 0 to 1.
        settings: Settings of the run.
    """
    rise = 1.0
    if settings.warmup_steps:
        share_of_steps = (step + 1) / settings.warmup_steps
        rise = min(1.0, max(share_of_steps, share_done / _WARMUP_SHARE))
    fall = 1.0
    if settings.decay_share:
        fall = (1 - share_done) / settings.decay_share
    return LearningRate(
        value=settings.learning_rate * min(rise, fall), is_rising=rise < 1
    )
