"""Options of a training run, with bilm-tf's names and defaults where they make sense.

The value of a training option comes from the caller, else from the training keys of a bilm-tf
options.json, else from the defaults, some of which depend on the optimizer.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors import OptionsError
from elmo_cli.text.text_settings import DEFAULT_SETTINGS, TextSettings
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer

if TYPE_CHECKING:
    from elmo_cli.inference.precision import Device


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
    """Return the content of an options.json."""
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
"""Architectures of the bundled model and of AllenNLP's published models, as an options.json."""


@dataclass(frozen=True)
class TextOptions:
    """The text to train on, and the text to measure perplexity on."""

    files: tuple[str | Path, ...]
    """Paths or patterns (`*`, `?`, `[...]`, `**`)."""
    settings: TextSettings = DEFAULT_SETTINGS
    """How every file is read."""
    tokenizer: Tokenizer = WHITESPACE
    validation_file: str | Path | None = None
    """Text to measure perplexity on."""
    validation_share: float = 0.0
    """Share of the lines to measure perplexity on, in place of `validation_file`. The model is not
    trained on these lines."""


@dataclass(frozen=True)
class StartOptions:
    """The model that a run starts from, and the words that it learns to predict.

    One of `options_file`, `preset` and `init_from` is required.
    """

    options_file: str | Path | None = None
    """options.json with the architecture."""
    preset: str | None = None
    """Name of an architecture in `PRESETS`."""
    init_from: str | Path | None = None
    """Model whose weights are the start: a name, a folder, a zip file, or a file of weights, which
    requires `options_file`."""
    vocabulary_file: str | Path | None = None
    """Words to predict."""
    vocabulary_size: int | None = None
    """Number of words to predict where neither a file nor a model names them."""


@dataclass(frozen=True)
class RunOptions:
    """Options that do not change what is learned."""

    device: "Device" = "cpu"
    checkpoint_seconds: float = 300.0
    """Seconds between checkpoints."""
    eval_steps: int = 1000
    """Steps between evaluations, each of which writes the model."""
    tensorboard: bool = False
    """Log to TensorBoard too."""
    keep_checkpoint: bool = False
    """Keep the checkpoint at the end of training, so that training can be made longer."""


@dataclass(frozen=True)
class TrainingOptions:
    """All options that change what is learned."""

    steps: int | None = None
    """Steps of the optimizer. None: train for `epochs`."""
    epochs: int = 10
    """Passes over the text."""
    state: str = "zero"
    """Initial state. `zero`: every sentence starts from the zero state. `carry`: as published, the
    text is split into blocks, and each block starts from the state at the end of the block
    before it."""
    batch_tokens: int = 2048
    """Maximum number of predictions per batch and direction, with the zero state."""
    max_length: int = 100
    """Maximum length of a sentence, with the zero state. Longer sentences are split into pieces,
    each of which starts from the zero state."""
    batch_size: int = 128
    """Number of parallel streams of text in all processes, with the carried state."""
    unroll: int = 20
    """Tokens per stream and block, with the carried state."""
    dropout: float = 0.1
    """Dropout of the LSTMs' inputs and of their output."""
    negative_samples: int = 8192
    """Distinct words drawn for the sampled softmax of each step. 0: full softmax."""
    optimizer: str = "adamw"
    """`adamw`, or `adagrad` as published."""
    learning_rate: float = 2e-3
    """Maximum learning rate."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    warmup_steps: int = 200
    """Steps over which the learning rate rises, at most a tenth of the run."""
    decay_share: float = 1 / 3
    """Share of the run, at its end, over which the learning rate falls to 0."""
    max_grad_norm: float = 1.0
    """Maximum norm of all gradients together."""
    precision: str = "float32"
    """`float32` or `bfloat16`."""
    seed: int = 0
    """Seed of all random numbers."""


@dataclass(frozen=True)
class GivenOptions:
    """The fields of `TrainingOptions` as a caller gives them. None is the default."""

    steps: int | None = None
    epochs: int | None = None
    state: str | None = None
    batch_tokens: int | None = None
    max_length: int | None = None
    batch_size: int | None = None
    unroll: int | None = None
    dropout: float | None = None
    negative_samples: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    warmup_steps: int | None = None
    decay_share: float | None = None
    max_grad_norm: float | None = None
    precision: str | None = None
    seed: int | None = None


_DEFAULTS_BY_OPTIMIZER: Final[Mapping[str, dict[str, Any]]] = {
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
"""Training keys of bilm-tf's options.json, and the names of these options here."""

_MINIMA: Final = {"epochs": 1, "batch_size": 1, "unroll": 1, "negative_samples": 0}
"""Minimum of each integer option in `_PUBLISHED_KEYS`."""
_MAX_INTEGER: Final = 1_000_000_000
_MAX_NUMBER: Final = 1e30

LENGTH_OPTIONS: Final = ("steps", "epochs")
"""Options that may change when a run resumes, to make it longer or shorter."""


def complete_options(options: GivenOptions, content: Mapping[str, Any]) -> TrainingOptions:
    """Complete given options from the content of an options.json and from the defaults."""
    values = {name: value for name, value in asdict(options).items() if value is not None}
    optimizer = options.optimizer or TrainingOptions.optimizer
    defaults = {**_DEFAULTS_BY_OPTIMIZER[optimizer], **_read_published(content, optimizer)}
    return TrainingOptions(**{**defaults, **values})


def _read_published(content: Mapping[str, Any], optimizer: str) -> dict[str, Any]:
    """Return the training options in an options.json of bilm-tf."""
    for key, value in {"bidirectional": "false", "share_embedding_softmax": "true"}.items():
        if json.dumps(content.get(key)) == value:
            raise OptionsError(f"{key}: {value} is not supported. Remove it from options.json.")
    keys = dict(_PUBLISHED_KEYS)
    if optimizer != "adagrad":
        # The published learning rate and norm fit Adagrad only.
        del keys["learning_rate"], keys["all_clip_norm_val"]
    options = {name: content[key] for key, name in keys.items() if content.get(key) is not None}
    if content.get("sample_softmax") is False:
        options["negative_samples"] = 0
    if options:
        logger.info("training options from options.json: %s", format_options(options))
    for name, value in options.items():
        _check_number(name, value)
    return options


def _check_number(name: str, value: Any) -> None:
    """Raise an `OptionsError` for a value that the command line would refuse."""
    is_number = type(value) in (int, float)
    if name in _MINIMA:
        expected = f"an integer from {_MINIMA[name]} to {_MAX_INTEGER:,}"
        fits = type(value) is int and _MINIMA[name] <= value <= _MAX_INTEGER
    elif name == "dropout":
        expected, fits = "a number from 0 to below 1", is_number and 0 <= value < 1
    else:
        expected = f"a number above 0, up to {_MAX_NUMBER:g}"
        fits = is_number and 0 < value <= _MAX_NUMBER
    if not fits:
        raise OptionsError(f"{name} in options.json: expected {expected}, found {value!r}.")


def effective_options(options: TrainingOptions, n_words: int, warmup_steps: int) -> dict[str, Any]:
    """Return the options that have an effect, with the values that are in effect.

    Args:
        options: Options of a run.
        n_words: Number of words to predict.
        warmup_steps: Steps over which the learning rate has really risen.
    """
    unused = {"epochs" if options.steps else "steps"}
    if options.state == "zero":
        unused |= {"batch_size"} if options.optimizer == "adagrad" else {"batch_size", "unroll"}
    else:
        unused |= {"batch_tokens", "max_length"}
    if options.optimizer == "adagrad":
        unused.add("weight_decay")
    values = {name: value for name, value in asdict(options).items() if name not in unused}
    if options.negative_samples >= n_words:
        values["negative_samples"] = 0
    return {**values, "warmup_steps": warmup_steps}


def format_options(options: Mapping[str, Any]) -> str:
    """Format options for a message: `dropout 0.1, unroll 20`."""
    return ", ".join(f"{name} {value}" for name, value in options.items())
