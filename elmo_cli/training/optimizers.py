"""The optimizer of a run, and its learning rate at each step."""

from collections.abc import Sequence

import torch
from torch import nn

from elmo_cli.training.options import TrainingOptions

_WARMUP_SHARE = 0.1
"""Maximum share of the run over which the learning rate rises."""


def make_optimizer(
    parameters: Sequence[nn.Parameter], options: TrainingOptions
) -> torch.optim.Optimizer:
    """Make AdamW, or Adagrad as published."""
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "adagrad":
        # TensorFlow's accumulators start at 1, so that the first steps are small.
        return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0)
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)


def learning_rate_at(step: int, share_done: float, options: TrainingOptions) -> float:
    """Return the learning rate after `step` steps, when `share_done` (0 to 1) of the run is done.

    The rate rises over the first `warmup_steps`, but at most over a tenth of the run. It then
    stays constant, and falls linearly to 0 over the last `decay_share` of the run.
    """
    factor = warmup_factor(step, share_done, options)
    if options.decay_share:
        factor = min(factor, (1 - share_done) / options.decay_share)
    return options.learning_rate * factor


def warmup_factor(step: int, share_done: float, options: TrainingOptions) -> float:
    """Return the share of the learning rate at the beginning of a run: 1 after the warm-up."""
    if not options.warmup_steps:
        return 1.0
    return min(1.0, max((step + 1) / options.warmup_steps, share_done / _WARMUP_SHARE))
