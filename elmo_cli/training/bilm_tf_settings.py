"""Training settings in the options.json that bilm-tf writes."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.json_objects import ValueCheck, is_number, is_whole

logger = logging.getLogger(__name__)

_MAX_INTEGER: Final = 1_000_000_000
_MAX_NUMBER: Final = 1e30


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value < 1


def _is_positive(value: Any) -> bool:
    return is_number(value) and 0 < value <= _MAX_NUMBER


def _integer_from(least: int) -> ValueCheck:
    return ValueCheck(
        expected=f"an integer from {least} to {_MAX_INTEGER:,}",
        accepts=lambda value: is_whole(value, least=least, most=_MAX_INTEGER),
    )


_SHARE: Final = ValueCheck("a number from 0 to below 1", _is_share)
_POSITIVE: Final = ValueCheck(f"a number above 0, up to {_MAX_NUMBER:g}", _is_positive)


class _Setting(NamedTuple):
    """Setting of bilm-tf: its name in `TrainingSettings`, and how to check it."""

    name: str
    check: ValueCheck


_SETTINGS: Final = {
    "dropout": _Setting("dropout", _SHARE),
    "all_clip_norm_val": _Setting("max_grad_norm", _POSITIVE),
    "n_epochs": _Setting("epochs", _integer_from(1)),
    "batch_size": _Setting("batch_size", _integer_from(1)),
    "unroll_steps": _Setting("unroll", _integer_from(1)),
    "n_negative_samples_batch": _Setting("negative_samples", _integer_from(0)),
    "learning_rate": _Setting("learning_rate", _POSITIVE),
}
"""Training settings by bilm-tf's keys. The command line takes the same values."""
_ONLY_ADAGRAD: Final = ("learning_rate", "all_clip_norm_val")
"""Keys whose published values do not fit another optimizer."""
_UNSUPPORTED: Final = {"bidirectional": False, "share_embedding_softmax": True}
"""Values that describe another kind of model."""


def settings_in_options_json(
    content: Mapping[str, Any], optimizer: str
) -> dict[str, Any]:
    """Return the fields of `TrainingSettings` that an options.json has."""
    for key, unsupported in _UNSUPPORTED.items():
        if content.get(key) is unsupported:
            problem = f"{key}: {json.dumps(unsupported)} is not supported"
            raise ModelError(problem, remedy="Remove it from options.json.")
    if content.get("sample_softmax") is False:
        content = {**content, "n_negative_samples_batch": 0}
    settings = {}
    for key, (name, check) in _SETTINGS.items():
        value = content.get(key)
        if value is None:
            continue
        if key in _ONLY_ADAGRAD and optimizer != "adagrad":
            continue
        if not check.accepts(value):
            problem = f"expected {check.expected}, found {value!r}"
            raise ModelError(f"{name} in options.json: {problem}")
        settings[name] = value
    if settings:
        shown = ", ".join(f"{name} {value}" for name, value in settings.items())
        logger.info("Training options from options.json: %s", shown)
    return settings
