"""Options of a training run, with bilm-tf's names and defaults where they make sense.

The value of a training option comes from the caller, else from the training keys of a
bilm-tf options.json, else from the defaults, some of which depend on the optimizer.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.options.text import DEFAULT_SETTINGS, TextSettings
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer
from elmo_cli.training.published_options import read_published

if TYPE_CHECKING:
    from elmo_cli.inference.device import Device


@dataclass(frozen=True)
class TextOptions:
    """The text to train on, and the text to measure perplexity on."""

    files: tuple[str | Path, ...]  # paths or patterns (`*`, `?`, `[...]`, `**`)
    settings: TextSettings = DEFAULT_SETTINGS
    tokenizer: Tokenizer = WHITESPACE
    validation_file: str | Path | None = None  # text to measure perplexity on
    validation_share: float = 0.0
    """Share of the lines to measure perplexity on, in place of `validation_file`. The model
    is not trained on these lines."""


@dataclass(frozen=True)
class StartOptions:
    """The model that a run starts from, and the words that it learns to predict.

    One of `options_file`, `preset` and `init_from` is required.
    """

    options_file: str | Path | None = None  # options.json with the architecture
    preset: str | None = None  # name of an architecture in `PRESETS`
    init_from: str | Path | None = None
    """Model whose weights are the start: a name, a folder, a zip file, or a file of weights,
    which requires `options_file`."""
    vocabulary_file: str | Path | None = None  # words to predict
    vocabulary_size: int | None = None
    """Number of words to predict where neither a file nor a model names them."""


@dataclass(frozen=True)
class RunOptions:
    """Options that do not change what is learned."""

    device: "Device" = "cpu"
    checkpoint_seconds: float = 300.0
    eval_steps: int = 1000  # steps between evaluations, each of which writes the model
    tensorboard: bool = False
    keep_checkpoint: bool = False
    """Keep the checkpoint at the end of training, so that training can be made longer."""


def _option(default: object, description: str, **metadata: object) -> Any:
    """Return a field of `TrainingOptions`, with `choices` or the default with `adagrad`."""
    return field(default=default, metadata={"description": description, **metadata})


@dataclass(frozen=True)
class TrainingOptions:
    """All options that change what is learned.

    With the zero state, every sentence is a row of a batch. Longer sentences than
    `max_length` are split into pieces, each of which starts from the zero state. With the
    carried state, the text is split into blocks, and each block starts from the state at
    the end of the block before it.
    """

    steps: int | None = None  # Steps of the optimizer. None: train for `epochs`.
    epochs: int = _option(10, "Passes over the text.")
    state: str = _option(
        "zero",
        "Initial LSTM state: zero for each sentence, or carried over from block to block "
        "of text, as published.",
        choices=("zero", "carry"),
    )
    batch_tokens: int = _option(2048, "Tokens in a batch, with --state zero.")
    max_length: int = _option(
        100, "Maximum length of a sentence, with --state zero; longer ones are cut."
    )
    batch_size: int = _option(128, "Streams of text, with --state carry.")
    unroll: int = _option(20, "Tokens of a stream in a block, with --state carry.")
    dropout: float = _option(0.1, "Dropout of the LSTMs' inputs and of their output.")
    negative_samples: int = _option(
        8192, "Words of the sampled softmax; 0 for the full softmax."
    )
    optimizer: str = _option(
        "adamw", "AdamW, or Adagrad as published.", choices=("adamw", "adagrad")
    )
    learning_rate: float = _option(2e-3, "Maximum learning rate.", adagrad=0.2)
    weight_decay: float = _option(0.0, "Weight decay of AdamW.")
    warmup_steps: int = _option(
        200,
        "Steps over which the learning rate rises, a tenth of the run at most.",
        adagrad=0,
    )
    decay_share: float = _option(
        1 / 3,
        "Share of the run, at its end, over which the learning rate falls to 0.",
        adagrad=0.0,
    )
    max_grad_norm: float = _option(1.0, "Maximum norm of the gradients.", adagrad=10.0)
    precision: str = _option(
        "float32", "Precision of the computation.", choices=("float32", "bfloat16")
    )
    seed: int = _option(0, "Seed of all random numbers.")


LENGTH_OPTIONS: Final = ("steps", "epochs")
"""Options that may change when a run resumes, to make it longer or shorter."""


def complete_options(
    given: Mapping[str, Any], content: Mapping[str, Any]
) -> TrainingOptions:
    """Complete fields of `TrainingOptions`, where not None, by an options.json and defaults."""
    chosen = {name: value for name, value in given.items() if value is not None}
    optimizer = chosen.get("optimizer", TrainingOptions.optimizer)
    values = {}
    for each in fields(TrainingOptions):
        if optimizer in each.metadata:
            values[each.name] = each.metadata[optimizer]
    values.update(read_published(content, optimizer))
    values.update(chosen)
    return TrainingOptions(**values)


def effective_options(
    options: TrainingOptions, *, n_words: int, warmup_steps: int
) -> dict[str, Any]:
    """Return the options that have an effect. The learning rate rose over `warmup_steps`."""
    unused = {"epochs" if options.steps else "steps"}
    if options.state == "carry":
        unused.update(["batch_tokens", "max_length"])
    else:
        unused.add("batch_size")
        # The loss of Adagrad is multiplied by `unroll`.
        if options.optimizer != "adagrad":
            unused.add("unroll")
    if options.optimizer == "adagrad":
        unused.add("weight_decay")
    values = {}
    for name, value in asdict(options).items():
        if name not in unused:
            values[name] = value
    if options.negative_samples >= n_words:
        values["negative_samples"] = 0
    values["warmup_steps"] = warmup_steps
    return values
