"""`elmo train`: text to a model."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_cli.cli import shared_options
from elmo_cli.cli.command import Decorator, command, option_group
from elmo_cli.cli.command_texts import open_command_text, say_tokenizer
from elmo_cli.cli.load_model import start_garbage_collector
from elmo_cli.cli.parameter_types import PATH, POSITIVE, Number, WholeNumber
from elmo_cli.cli.shared_options import command_option, field_option, flag
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.cli.usage_errors import missing_error
from elmo_cli.cli.value_completion import complete_models
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.files.json_form import json_text
from elmo_cli.options.fields import option_fields, settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import Source
from elmo_cli.training.find_text_files import find_text_files
from elmo_cli.training.training_settings import (
    ADAGRAD_DEFAULTS,
    RunSettings,
    StartSettings,
    TrainingSettings,
    TrainingTextSettings,
)

if TYPE_CHECKING:
    from elmo_cli.training.evaluation import Figures

_SHARE: Final = Number(0, 1)
_BELOW_ONE: Final = Number(0, 1, max_open=True)
_FROM_ZERO: Final = WholeNumber(0)
_PATH: Final = click.Path(path_type=Path)
_WITH_CARRY: Final = ("--state", "carry")
_WITH_ADAGRAD: Final = ("--optimizer", "adagrad")


def _training_option(name: str, **arguments: Any) -> Decorator:
    """Add the option of a field of `TrainingSettings`, which is None unless given.

    Its default may depend on the optimizer, so that `complete_settings` sets it.
    """
    default = getattr(TrainingSettings, name)
    if isinstance(default, float):
        default_text = f"{default:.3g}"
    else:
        default_text = str(default)
    if name in ADAGRAD_DEFAULTS:
        default_text += f" (Adagrad: {ADAGRAD_DEFAULTS[name]:g})"
    if isinstance(default, int):
        arguments.setdefault("type", WholeNumber(1))
    return field_option(
        TrainingSettings, name, default=None, default_text=default_text, **arguments
    )


@command()
@click.argument("texts", metavar="INPUT...", type=PATH, nargs=-1, required=True)
@option_group(
    "New model",
    command_option(
        "--output FOLDER",
        "-o",
        "folder",
        required=True,
        type=_PATH,
        help="Folder for the model. A run that stopped there is resumed.",
    ),
    field_option(StartSettings, "preset", excludes=["--options-file", "--init-from"]),
    field_option(StartSettings, "options_file", type=_PATH),
    field_option(StartSettings, "init_from", shell_complete=complete_models),
    field_option(StartSettings, "vocabulary_file", type=_PATH),
    field_option(
        StartSettings,
        "vocabulary_size",
        type=WholeNumber(4),
        excludes=["--vocabulary-file"],
    ),
)
@option_group(
    "Input", shared_options.input_format_option(), shared_options.text_column_option()
)
@shared_options.cell_options()
@shared_options.splitting_options()
@option_group(
    "Validation",
    field_option(TrainingTextSettings, "validation_file", type=_PATH),
    field_option(
        TrainingTextSettings,
        "validation_share",
        type=_BELOW_ONE,
        show_default=False,
        excludes=["--validation-file"],
    ),
    field_option(RunSettings, "eval_steps", type=WholeNumber(1)),
)
@option_group(
    "Length and batches",
    _training_option("epochs", excludes=["--steps"]),
    field_option(TrainingSettings, "steps", type=WholeNumber(1)),
    _training_option("state"),
    _training_option("batch_tokens", excludes=[_WITH_CARRY]),
    _training_option("max_length", excludes=[_WITH_CARRY]),
    _training_option("batch_size", requires=[_WITH_CARRY]),
)
@option_group(
    "Optimization",
    _training_option("dropout", type=_BELOW_ONE),
    _training_option("optimizer"),
    _training_option("learning_rate", type=POSITIVE),
    _training_option("weight_decay", type=_SHARE, excludes=[_WITH_ADAGRAD]),
    _training_option("precision"),
    _training_option("seed", type=_FROM_ZERO),
)
@option_group(
    "Run",
    shared_options.device_option(),
    field_option(RunSettings, "checkpoint_seconds", type=Number(0)),
    field_option(RunSettings, "tensorboard"),
    flag(
        "--json",
        "as_json",
        requires=["--validation-file", "--validation-share"],
        help="Print the perplexity of the validation text as JSON.",
    ),
)
@option_group(
    "Rarely needed",
    _training_option("warmup_steps", type=_FROM_ZERO),
    _training_option("decay_share", type=_SHARE),
    _training_option("max_grad_norm", type=POSITIVE),
    _training_option("negative_samples", type=_FROM_ZERO),
    # The loss of Adagrad is multiplied by --unroll.
    _training_option("unroll", requires=[_WITH_CARRY, _WITH_ADAGRAD]),
    field_option(RunSettings, "keep_checkpoint"),
)
def train(
    texts: tuple[str, ...],
    folder: Path,
    validation_file: Path | None,
    validation_share: float,
    as_json: bool,
    **values: Any,
) -> None:
    """Train a model on text, one sentence per line, or resume a run.

    \b
    $ elmo train text.txt --preset mini --validation-share 0.01 --output mine
    $ elmo train reviews.parquet --text-column review --preset mini --output mine
    $ elmo train '*.gz' --preset small --optimizer adagrad --output news
    $ elmo train my.txt --init-from mini --learning-rate 4e-4 --output tuned

    INPUT is one or several files, or patterns in quotes, in any format that `elmo
    embed` reads. Training reads them several times, so standard input cannot be used.
    Texts may be raw or tokenized: the first file decides the tokenizer of all.

    To train a new model, choose its architecture with --preset or --options-file. To
    fine-tune a model, use --init-from instead. If its softmax is not on this computer,
    a new one is trained.

    The folder of --output is the model: use it with --model FOLDER. Its card.md says
    how it was trained, and how good it is. With validation text, the perplexity is also
    printed.

    To resume after Ctrl-C or a crash, repeat the command. Only --steps, --epochs,
    --validation-file, --eval-steps, --device, --checkpoint-seconds, --tensorboard,
    --keep-checkpoint and --json may change.

    To train a finished model further, repeat its command with more --steps or --epochs.
    This requires --keep-checkpoint from the beginning. Otherwise, use --init-from
    FOLDER and another --output.
    """
    text_settings = settings_from(TextSettings, values)
    start_settings = settings_from(StartSettings, values)
    init_from = start_settings.init_from
    options_file = start_settings.options_file
    if not (init_from or options_file or start_settings.preset):
        raise missing_error("--preset, --options-file or --init-from")
    if init_from is None or options_file is None:
        model_settings = ModelSettings(model=init_from)
    else:
        model_settings = ModelSettings(options_file=options_file, weight_file=init_from)

    from elmo_cli.pretrained.find_model import resolve_model

    # The first file decides the tokenizer of all.
    tokenizer = open_command_text(
        Source(find_text_files(texts)[0]),
        text_settings,
        resolve_model(model_settings),
        is_new=init_from is None,
    ).tokenizer
    if folder.exists() and not folder.is_dir():
        raise SettingsError(
            f"{folder}: a file", remedy="Name a folder with {--output}."
        )
    # By default oneDNN keeps 1,024 products, one per number of rows. Here all differ.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

    from elmo_cli.training.train import train_model

    start_garbage_collector()
    say_tokenizer()
    training_settings = {name: values[name] for name in option_fields(TrainingSettings)}
    with stop_on_signal() as should_stop:
        perplexity = train_model(
            TrainingTextSettings(
                files=texts,
                text=text_settings,
                tokenizer=tokenizer,
                validation_file=validation_file,
                validation_share=validation_share,
            ),
            folder,
            start_settings=start_settings,
            training_settings=training_settings,
            run_settings=settings_from(RunSettings, values),
            should_stop=should_stop,
        )
    if perplexity is None:
        return
    if as_json:
        click.echo(json_text(perplexity))
    else:
        click.echo(_perplexity_table(perplexity))


def _perplexity_table(figures: "Figures") -> str:
    """Return the perplexity of the validation text, as `elmo perplexity` shows it."""
    lines = [
        f"tokens       {figures['tokens']:>12,}  of the validation text",
        f"unknown      {figures['unknown']:>12.2%}  of the tokens",
        "",
        "perplexity",
    ]
    for name in ("forward", "backward", "average"):
        lines.append(f"{name:<11}  {figures[name]:>12,.2f}")
    return "\n".join(lines)
