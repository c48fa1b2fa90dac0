"""The settings of a run, with bilm-tf's names and defaults where they make sense.

Settings come from three places: what is given, else the training keys of a bilm-tf
options.json, else the defaults, some of which go with the optimizer.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from elmo_cli.errors import OptionsError

logger = logging.getLogger(__name__)

_CHARACTERS = {
    "activation": "relu",
    "embedding": {"dim": 16},
    "n_characters": 262,
    "max_characters_per_token": 50,
}
_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]


def _architecture(
    dim: int, projection_dim: int, n_highway: int, filters: list[list[int]]
) -> dict[str, Any]:
    """The content of an options.json."""
    clips = {"cell_clip": 3, "proj_clip": 3, "use_skip_connections": True}
    return {
        "lstm": {"dim": dim, "projection_dim": projection_dim, "n_layers": 2, **clips},
        "char_cnn": {**_CHARACTERS, "n_highway": n_highway, "filters": filters},
    }


PRESETS: Final[Mapping[str, dict[str, Any]]] = {
    "mini": _architecture(256, 512, 1, [*_FILTERS[:4], [5, 128], [6, 128]]),
    "small": _architecture(1024, 128, 1, _FILTERS),
    "medium": _architecture(2048, 256, 1, _FILTERS),
    "original": _architecture(4096, 512, 2, _FILTERS),
}
"""The architectures of the bundled and of AllenNLP's published models, as an options.json."""


@dataclass(frozen=True)
class TrainingOptions:
    """All settings of a run."""

    steps: int | None = None
    """Steps of the optimizer; None trains for `epochs`."""
    epochs: int = 10
    state: str = "zero"
    """`zero`: every sentence starts from the zero state. `carry`: as published, the text
    is cut into blocks, and the state goes from block to block."""
    batch_tokens: int = 2048
    """Maximum number of predictions of a direction in a batch, with the zero state."""
    max_length: int = 100
    """Maximum length of a sentence, with the zero state; longer ones are cut into pieces, each of
    which starts from it."""
    batch_size: int = 128
    """Streams of text that run side by side in all processes, with the carried state."""
    unroll: int = 20
    """Tokens of each stream in a block, with the carried state."""
    dropout: float = 0.1
    negative_samples: int = 8192
    """Distinct words drawn for the sampled softmax of each step; 0 takes the full softmax."""
    optimizer: str = "adamw"
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    warmup_steps: int = 200
    """Steps over which the learning rate rises, a tenth of the run at most."""
    decay_share: float = 1 / 3
    """Share of the run, at its end, over which the learning rate falls to 0."""
    max_grad_norm: float = 1.0
    """Maximum norm of all gradients together."""
    precision: str = "float32"
    seed: int = 0


_OF_OPTIMIZER: Final[Mapping[str, dict[str, Any]]] = {
    "adamw": {},
    "adagrad": {"learning_rate": 0.2, "max_grad_norm": 10.0, "warmup_steps": 0, "decay_share": 0.0},
}

_PUBLISHED_KEYS: Final = {
    "dropout": "dropout",
    "all_clip_norm_val": "max_grad_norm",
    "n_epochs": "epochs",
    "batch_size": "batch_size",
    "unroll_steps": "unroll",
    "n_negative_samples_batch": "negative_samples",
    "learning_rate": "learning_rate",
}
"""Training keys of bilm-tf's options.json, and what they are called here."""

_LEAST: Final = {"epochs": 1, "batch_size": 1, "unroll": 1, "negative_samples": 0}
"""Of the whole numbers among them."""

RUN_LENGTH: Final = {"steps", "epochs"}
"""The settings that may change when a run is resumed: it is made longer or shorter."""


def training_options(content: Mapping[str, Any], **given: Any) -> TrainingOptions:
    """The settings of a run: the given ones that are not None, else those of an options.json."""
    given = {name: value for name, value in given.items() if value is not None}
    optimizer = given.get("optimizer", TrainingOptions.optimizer)
    defaults = {**_OF_OPTIMIZER[optimizer], **_published(content, optimizer)}
    return TrainingOptions(**{**defaults, **given})


def _published(content: Mapping[str, Any], optimizer: str) -> dict[str, Any]:
    """The settings in an options.json of bilm-tf."""
    for key, value in {"bidirectional": "false", "share_embedding_softmax": "true"}.items():
        if json.dumps(content.get(key)) == value:
            raise OptionsError(f"{key}: found {value}, which is not offered")
    keys = dict(_PUBLISHED_KEYS)
    if optimizer != "adagrad":  # its learning rate and norm mean nothing to another
        del keys["learning_rate"], keys["all_clip_norm_val"]
    found = {name: content[key] for key, name in keys.items() if content.get(key) is not None}
    if content.get("sample_softmax") is False:
        found["negative_samples"] = 0
    if found:
        logger.info("settings from options.json: %s", shown(found))
    for name, value in found.items():
        _check_number(name, value)
    return found


def _check_number(name: str, value: Any) -> None:
    """Raise an `OptionsError` for a value that the command line would not take."""
    is_number = type(value) in (int, float)
    if name in _LEAST:
        least = _LEAST[name]
        expected, fits = f"a whole number, {least} or more", type(value) is int and value >= least
    elif name == "dropout":
        expected, fits = "a number from 0 to below 1", is_number and 0 <= value < 1
    else:
        expected, fits = "a number above 0", is_number and value > 0
    if not fits:
        raise OptionsError(f"{name} in options.json: expected {expected}, found {value!r}")


def shown(settings: Mapping[str, Any]) -> str:
    """Settings as a message shows them."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())
