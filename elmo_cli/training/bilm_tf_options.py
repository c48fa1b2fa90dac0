"""Training options in the options.json that bilm-tf writes."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from elmo_cli.errors.exceptions import OptionsError

logger = logging.getLogger(__name__)

_NAMES: Final = {
    "dropout": "dropout",
    "all_clip_norm_val": "max_grad_norm",
    "n_epochs": "epochs",
    "batch_size": "batch_size",
    "unroll_steps": "unroll",
    "n_negative_samples_batch": "negative_samples",
    "learning_rate": "learning_rate",
}
"""Names of `TrainingOptions`, by bilm-tf's keys."""
_ONLY_ADAGRAD: Final = ("learning_rate", "all_clip_norm_val")
"""Keys whose published values do not fit another optimizer."""
_UNSUPPORTED: Final = {"bidirectional": False, "share_embedding_softmax": True}

_MINIMA: Final = {"epochs": 1, "batch_size": 1, "unroll": 1, "negative_samples": 0}
"""Minimum of each option that is an integer."""
_MAX_INTEGER: Final = 1_000_000_000
_MAX_NUMBER: Final = 1e30


def read_published(content: Mapping[str, Any], optimizer: str) -> dict[str, Any]:
    """Return the fields of `TrainingOptions` that an options.json has."""
    for key, value in _UNSUPPORTED.items():
        if content.get(key) is value:
            problem = f"{key}: {json.dumps(value)} is not supported"
            raise OptionsError(f"{problem}. Remove it from options.json.")
    options = {}
    for key, name in _NAMES.items():
        if key in _ONLY_ADAGRAD and optimizer != "adagrad":
            continue
        if content.get(key) is not None:
            options[name] = content[key]
    if content.get("sample_softmax") is False:
        options["negative_samples"] = 0
    if options:
        shown = ", ".join(f"{name} {value}" for name, value in options.items())
        logger.info("Training options from options.json: %s", shown)
    for name, value in options.items():
        _check_value(name, value)
    return options


def _check_value(name: str, value: Any) -> None:
    """Raise an `OptionsError` for a value that the command line would refuse."""
    if name in _MINIMA:
        least = _MINIMA[name]
        fits = type(value) is int and least <= value <= _MAX_INTEGER
        expected = f"an integer from {least} to {_MAX_INTEGER:,}"
    elif name == "dropout":
        fits = type(value) in (int, float) and 0 <= value < 1
        expected = "a number from 0 to below 1"
    else:
        fits = type(value) in (int, float) and 0 < value <= _MAX_NUMBER
        expected = f"a number above 0, up to {_MAX_NUMBER:g}"
    if not fits:
        problem = f"expected {expected}, found {value!r}"
        raise OptionsError(f"{name} in options.json: {problem}.")
