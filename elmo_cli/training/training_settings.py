"""Settings of a training run, with bilm-tf's names and defaults where they make sense.

A training setting comes from the caller, else from the training keys of a
bilm-tf options.json, else from the defaults, some of which depend on the optimizer.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.options.fields import option
from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS, TextSettings
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer
from elmo_cli.training.bilm_tf_settings import settings_in_options_json
from elmo_cli.training.presets import PRESETS

if TYPE_CHECKING:
    from elmo_cli.inference.device import Device


@dataclass(frozen=True)
class TrainingTextSettings:
    """The text to train on, and the text to measure perplexity on."""

    files: tuple[str | Path, ...]
    """Paths or patterns, which may have `*`, `?`, `[...]` and `**`."""
    text: TextSettings = DEFAULT_TEXT_SETTINGS
    tokenizer: Tokenizer = WHITESPACE
    validation_file: str | Path | None = option(
        None,
        "Text to measure the perplexity on, in any format of INPUT.",
        value="FILE",
    )
    validation_share: float = option(
        0.0,
        "Instead of {--validation-file}, hold out this share of the lines: 0.01 is one "
        "in a hundred.",
        value="X",
    )
    """It is in place of `validation_file`. The model is not trained on these lines."""


@dataclass(frozen=True)
class StartSettings:
    """The model that a run starts from, and the words that it learns to predict.

    One of `options_file`, `preset` and `init_from` is required.
    """

    options_file: str | Path | None = option(
        None,
        "options.json with the architecture; it may also contain settings of bilm-tf.",
        value="FILE",
    )
    preset: str | None = option(
        None,
        "Architecture: that of the bundled model (mini) or of one of AllenNLP's.",
        choices=tuple(PRESETS),
    )
    init_from: str | Path | None = option(
        None,
        "Model to fine-tune, as for {--model}, or a weights file with "
        "{--options-file}.",
        value="NAME|PATH",
    )
    """A name, a folder, a zip file or a file of weights."""
    vocabulary_file: str | Path | None = option(
        None,
        "Words to predict, one per line: <S>, </S>, <UNK>, then the most frequent "
        "first.",
        default_text="copied from {--init-from}, else counted",
        value="FILE",
    )
    vocabulary_size: int | None = option(
        None,
        "Number of words to predict, the most frequent in the text and <S>, </S>, "
        "<UNK>. It has no effect if {--init-from} has a vocabulary.",
        default_text="25000",
        value="N",
    )


@dataclass(frozen=True)
class RunSettings:
    """Settings that do not change what is learned."""

    device: "Device" = "cpu"
    checkpoint_seconds: float = option(
        300, "Maximum seconds between checkpoints.", value="N"
    )
    eval_steps: int = option(
        1000,
        "Every N steps, write a checkpoint and the model, and measure its perplexity.",
        value="N",
    )
    tensorboard: bool = option(False, "Also log to FOLDER/tensorboard.")
    keep_checkpoint: bool = option(
        False,
        "Keep the last checkpoint (several times the size of the model), to train "
        "longer later.",
    )


@dataclass(frozen=True)
class TrainingSettings:
    """All settings that change what is learned.

    With the zero state, every sentence is a row of a batch. Longer sentences than
    `max_length` are split into pieces, each of which starts from the zero state. With
    the carried state, the text is split into blocks, and each block starts from the
    state at the end of the block before it.
    """

    steps: int | None = option(
        None, "Number of optimizer steps, instead of {--epochs}.", value="N"
    )
    epochs: int = option(10, "Passes over the text.", value="N")
    state: str = option(
        "zero",
        "Initial LSTM state: zero for each sentence, or carry it from one block of "
        "text to the next, as the original models did.",
        choices=("zero", "carry"),
    )
    batch_tokens: int = option(
        2048, "Tokens per batch, with {--state zero}.", value="N"
    )
    max_length: int = option(
        100,
        "Maximum tokens per sentence, with {--state zero}; a longer sentence is split "
        "into pieces.",
        value="N",
    )
    batch_size: int = option(
        128, "Parallel streams of text, with {--state carry}.", value="N"
    )
    unroll: int = option(
        20,
        "Tokens per stream and block, with {--state carry}. With Adagrad, also the "
        "scale of the loss.",
        value="N",
    )
    dropout: float = option(
        0.1, "Dropout on the inputs and the output of the LSTMs.", value="X"
    )
    negative_samples: int = option(
        8192, "Words in the sampled softmax; 0 for the full softmax.", value="N"
    )
    optimizer: str = option(
        "adamw",
        "Optimizer: AdamW, or Adagrad as in the original models.",
        choices=("adamw", "adagrad"),
    )
    learning_rate: float = option(2e-3, "Maximum learning rate.", value="X")
    weight_decay: float = option(0.0, "Weight decay of AdamW.", value="X")
    warmup_steps: int = option(
        200,
        "Steps over which the learning rate rises; at most a tenth of the run.",
        value="N",
    )
    decay_share: float = option(
        1 / 3,
        "Last share of the run, over which the learning rate falls to 0.",
        value="X",
    )
    max_grad_norm: float = option(1.0, "Maximum norm of the gradients.", value="X")
    precision: str = option(
        "float32", "Precision of the computation.", choices=("float32", "bfloat16")
    )
    seed: int = option(0, "Seed of all random numbers.", value="N")


ADAGRAD_DEFAULTS: Final[dict[str, float]] = {
    "learning_rate": 0.2,
    "warmup_steps": 0,
    "decay_share": 0.0,
    "max_grad_norm": 10.0,
}
"""Defaults of `TrainingSettings` that are others with Adagrad."""
LENGTH_OPTIONS: Final = ("steps", "epochs")
"""Options that may change when a run resumes, to make it longer or shorter."""


def complete_settings(
    given: Mapping[str, Any], options_json: Mapping[str, Any]
) -> TrainingSettings:
    """Return all settings: those given, else those in options.json, else defaults."""
    chosen = {name: value for name, value in given.items() if value is not None}
    optimizer = chosen.get("optimizer", TrainingSettings.optimizer)
    values: dict[str, Any] = {}
    if optimizer == "adagrad":
        values.update(ADAGRAD_DEFAULTS)
    values.update(settings_in_options_json(options_json, optimizer))
    values.update(chosen)
    return TrainingSettings(**values)


def effective_settings(
    settings: TrainingSettings, *, n_words: int, warmup_steps: int
) -> dict[str, Any]:
    """Return the settings that have an effect.

    The learning rate rose over `warmup_steps`.
    """
    unused = {"epochs" if settings.steps else "steps"}
    if settings.state == "carry":
        unused.update(["batch_tokens", "max_length"])
    else:
        unused.add("batch_size")
        # The loss of Adagrad is multiplied by `unroll`.
        if settings.optimizer != "adagrad":
            unused.add("unroll")
    if settings.optimizer == "adagrad":
        unused.add("weight_decay")
    values = {}
    for name, value in asdict(settings).items():
        if name not in unused:
            values[name] = value
    if settings.negative_samples >= n_words:
        values["negative_samples"] = 0
    values["warmup_steps"] = warmup_steps
    return values
