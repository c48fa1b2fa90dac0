"""`elmo train`: text to a model."""

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.command import Decorator, command, option_group
from elmo_cli.cli.completion import complete_models
from elmo_cli.cli.options import choice, count, flag, option
from elmo_cli.cli.parameter_types import PATH, POSITIVE, Number
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.files.json_form import json_text
from elmo_cli.options.fields import options_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.training.presets import PRESETS
from elmo_cli.training.training_options import (
    RunOptions,
    StartOptions,
    TextOptions,
    TrainingOptions,
)

_SHARE = Number(0, 1)
_BELOW_ONE = Number(0, 1, max_open=True)
_WITH_CARRY = ("--state", "carry")
_WITH_ADAGRAD = ("--optimizer", "adagrad")
_file = partial(option, type=click.Path(path_type=Path))


def _training(name: str, **settings: Any) -> Decorator:
    """Add the option for a field of `TrainingOptions`."""
    [field] = [each for each in fields(TrainingOptions) if each.name == name]
    is_float = isinstance(field.default, float)
    default = f"{field.default:.3g}" if is_float else str(field.default)
    if "adagrad" in field.metadata:
        default += f"; Adagrad: {field.metadata['adagrad']:g}"
    settings["help"] = f"{field.metadata['description']} [default: {default}]"
    long_name = f"--{name.replace('_', '-')}"
    if "choices" in field.metadata:
        return choice(long_name, field.metadata["choices"], **settings)
    if isinstance(field.default, int):
        return count(long_name, **settings)
    return option(f"{long_name} X", **settings)


@command()
@click.argument("texts", metavar="INPUT...", type=PATH, nargs=-1, required=True)
@option_group(
    "Model",
    option(
        "--output FOLDER",
        "-o",
        "folder",
        required=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for the model. A run that was stopped there is resumed.",
    ),
    choice(
        "--preset",
        tuple(PRESETS),
        excludes=["--options-file", "--init-from"],
        help="Architecture of the bundled model or of one of AllenNLP's.",
    ),
    _file(
        "--options-file FILE",
        help="options.json with the architecture; it may also contain settings of bilm-tf.",
    ),
    option(
        "--init-from NAME|FOLDER",
        shell_complete=complete_models,
        help="Fine-tune this model. --options-file is required for a weights file.",
    ),
    _file(
        "--vocabulary-file FILE",
        help="Words to predict: <S>, </S>, <UNK>, then the most frequent first. [default: copied "
        "from --init-from, else counted]",
    ),
    count(
        "--vocabulary-size",
        least=4,
        excludes=["--vocabulary-file"],
        help="Number of counted words to predict. [default: 25000]",
    ),
)
@option_group("Text", options.input_format_option(), options.text_column_option())
@options.cell_options()
@options.splitting_options(options.BY_FORMAT)
@option_group(
    "Validation",
    _file("--validation-file FILE", help="Text whose perplexity is measured."),
    option(
        "--validation-share X",
        type=_BELOW_ONE,
        default=0.0,
        show_default=False,
        excludes=["--validation-file"],
        help="Hold out this share of the lines for validation: 0.01 is one in a hundred.",
    ),
    count(
        "--eval-steps", default=1000, help="Evaluate and write the model every N steps."
    ),
)
@option_group(
    "Length and batches",
    _training("epochs", excludes=["--steps"]),
    count("--steps", help="Number of optimizer steps, instead of --epochs."),
    _training("state"),
    _training("batch_tokens", excludes=[_WITH_CARRY]),
    _training("max_length", excludes=[_WITH_CARRY]),
    _training("batch_size", requires=[_WITH_CARRY]),
    # The loss of Adagrad is multiplied by --unroll.
    _training("unroll", requires=[_WITH_CARRY, _WITH_ADAGRAD]),
)
@option_group(
    "Optimization",
    _training("dropout", type=_BELOW_ONE),
    _training("negative_samples", least=0),
    _training("optimizer"),
    _training("learning_rate", type=POSITIVE),
    _training("weight_decay", type=_SHARE, excludes=[_WITH_ADAGRAD]),
    _training("warmup_steps", least=0),
    _training("decay_share", type=_SHARE),
    _training("max_grad_norm", type=POSITIVE),
    _training("precision"),
    _training("seed", least=0),
)
@option_group(
    "Run",
    options.device_option(),
    option(
        "--checkpoint-seconds N",
        type=Number(0),
        default=300,
        help="Seconds between checkpoints.",
    ),
    flag("--tensorboard", help="Also log to FOLDER/tensorboard."),
    flag(
        "--keep-checkpoint",
        help="Keep the last checkpoint, so that you can train longer.",
    ),
)
def train(
    texts: tuple[str, ...],
    folder: Path,
    validation_file: Path | None,
    validation_share: float,
    **values: Any,
) -> None:
    """Train a model on text, one sentence per line, or resume a run.

    INPUT is a file, or a pattern in quotes, in any format that `elmo embed` reads. By default,
    white space separates the tokens of a text file, and moses tokenizes tables. To use the
    model, give FOLDER to --model. It contains options.json, weights.hdf5, vocab.txt,
    softmax.hdf5, and card.md, which describes the training. To resume after Ctrl-C or a
    crash, give the same command again. The validation perplexity is printed as JSON.

    \b
    $ elmo train text.txt --preset mini --epochs 3 --validation-share 0.01 --output my-model
    $ elmo train reviews.parquet --text-column review --preset mini --output reviews
    $ elmo train 'news-*.gz' --preset small --state carry --optimizer adagrad --output news
    $ elmo train texts.txt --init-from mini --epochs 2 --learning-rate 0.0005 --output tuned
    """
    text_settings = options_from(TextSettings, values)
    start_options = options_from(StartOptions, values)
    init_from = start_options.init_from
    options_file = start_options.options_file
    if not (init_from or options_file or start_options.preset):
        raise click.UsageError("give --preset, --options-file or --init-from")
    if options_file is None:
        model_settings = ModelSettings(model=init_from)
    else:
        model_settings = ModelSettings(options_file=options_file, weight_file=init_from)
    tokenizer = loading.load_tokenizer(
        text_settings, model_settings, texts[0], is_new=init_from is None
    )
    # By default oneDNN keeps 1,024 products, one per number of rows. Here all differ.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

    from elmo_cli.training.train import train_model

    loading.collect_garbage()
    training_names = {field.name for field in fields(TrainingOptions)}
    training_options = {
        name: value for name, value in values.items() if name in training_names
    }
    with stop_on_signal() as should_stop:
        perplexity = train_model(
            TextOptions(
                files=texts,
                settings=text_settings,
                tokenizer=tokenizer,
                validation_file=validation_file,
                validation_share=validation_share,
            ),
            folder,
            start_options,
            training_options,
            options_from(RunOptions, values),
            should_stop=should_stop,
        )
    if perplexity is not None:
        click.echo(json_text(perplexity))
    messages.say(f"Wrote the model to {folder}. See its card.md.")
