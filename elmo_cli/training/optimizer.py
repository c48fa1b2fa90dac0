"""The optimizer of a run, and the course of its learning rate."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn, optim

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


def load_optimizer(optimizer: optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Give an optimizer the state of a checkpoint.

    Raise a `ValueError` if it is not the state of such an optimizer. torch checks only
    the number of parameters.
    """
    groups = state.get("param_groups")
    if not isinstance(groups, list) or len(groups) != 1:
        raise ValueError("optimizer state: expected one group of parameters")
    if not _is_like(groups[0], optimizer.param_groups[0]):
        raise ValueError("optimizer state: other settings")
    tensors = state.get("state")
    if not isinstance(tensors, dict):
        raise ValueError("optimizer state: expected tensors for each parameter")
    names = {"step", "exp_avg", "exp_avg_sq"}
    if isinstance(optimizer, optim.Adagrad):
        names = {"step", "sum"}
    for index, parameter in enumerate(optimizer.param_groups[0]["params"]):
        own = tensors.get(index, {})  # AdamW has none before the first step.
        if own != {} and (not isinstance(own, dict) or own.keys() != names):
            raise ValueError(f"optimizer state: parameter {index} has other tensors")
        for name, values in own.items():
            shape = () if name == "step" else parameter.shape
            is_right = isinstance(values, Tensor) and values.shape == shape
            if not is_right or not values.isfinite().all():
                raise ValueError(
                    f"optimizer state: parameter {index} has a wrong {name}"
                )
    optimizer.load_state_dict({**state})


def _is_like(group: object, own: Mapping[str, Any]) -> bool:
    """Return whether a group of parameters has the settings of this optimizer.

    Another version of torch may have other settings as well. The learning rate is set
    before each step.
    """
    if not isinstance(group, dict) or "lr" not in group:
        return False
    expected = {**own, "params": list(range(len(own["params"])))}
    if "params" not in group:
        return False
    # Tensors among the values could not be compared with ==.
    shared = group.keys() & own.keys() - {"lr"}
    return all(repr(group[name]) == repr(expected[name]) for name in shared)


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
