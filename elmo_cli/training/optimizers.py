"""Gradients to changed weights: Adagrad as published, AdamW, and their learning rate."""

from collections.abc import Iterable

import torch
from torch import nn

from elmo_cli.training.options import TrainingOptions


def make_optimizer(
    parameters: Iterable[nn.Parameter], options: TrainingOptions
) -> torch.optim.Optimizer:
    """The optimizer of a run."""
    parameters, rate = list(parameters), options.learning_rate
    if options.optimizer == "adagrad":  # TensorFlow's: it starts with 1, so that steps are small
        return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0)
    decay = options.weight_decay
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)


def set_learning_rate(
    optimizer: torch.optim.Optimizer, step: int, progress: float, options: TrainingOptions
) -> float:
    """Set the learning rate of a step, and give it.

    It rises over the first `warmup_steps`, but a tenth of the run at most, stays, and falls
    to 0 in a straight line over the last `decay_share` of the run.

    Args:
        optimizer: of `make_optimizer`.
        step: the steps before this one.
        progress: the share of the run before this step, 0 to 1.
        options: of the run.
    """
    share = 1.0
    if options.warmup_steps:
        share = min(1.0, max((step + 1) / options.warmup_steps, progress / 0.1))
    if options.decay_share:
        share = min(share, (1 - progress) / options.decay_share)
    rate = options.learning_rate * share
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate
