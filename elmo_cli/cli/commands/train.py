"""`elmo train`: text to a model."""

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.command import Decorator, command, option_group
from elmo_cli.cli.options import choice, count, flag, option
from elmo_cli.files.json_form import json_text
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.training.presets import PRESETS
from elmo_cli.training.training_options import (
    RunOptions,
    StartOptions,
    TextOptions,
    TrainingOptions,
)

_POSITIVE = click.FloatRange(0, min_open=True)


_SHARE = click.FloatRange(0, 1)


_BELOW_ONE = click.FloatRange(0, 1, max_open=True)


_file = partial(option, type=click.Path(path_type=Path))


def _training(name: str, **settings: Any) -> Decorator:
    """Add the option for a field of `TrainingOptions`."""
    (each,) = (field for field in fields(TrainingOptions) if field.name == name)
    default = (
        f"{each.default:.3g}" if isinstance(each.default, float) else str(each.default)
    )
    if "adagrad" in each.metadata:
        default += f"; Adagrad: {each.metadata['adagrad']:g}"
    settings["help"] = f"{each.metadata['description']} [default: {default}]"
    flag_name = f"--{name.replace('_', '-')}"
    if "choices" in each.metadata:
        return choice(flag_name, each.metadata["choices"], **settings)
    if isinstance(each.default, int):
        return count(flag_name, **settings)
    return option(f"{flag_name} X", **settings)


@command()
@click.argument("texts", metavar="INPUT...", type=options.PATH, nargs=-1, required=True)
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
        excludes="--options-file or --init-from",
        help="Architecture of the bundled model or of one of AllenNLP's.",
    ),
    _file(
        "--options-file FILE",
        help="options.json with the architecture; it may also contain settings of bilm-tf.",
    ),
    option(
        "--init-from NAME|FOLDER",
        shell_complete=options.complete_models,
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
        excludes="--vocabulary-file",
        help="Number of counted words to predict. [default: 25000]",
    ),
)
@options.input_format_options()
@options.cell_options()
@options.splitting_options(options.BY_INPUT)
@option_group(
    "Validation",
    _file("--validation-file FILE", help="Text whose perplexity is measured."),
    option(
        "--validation-share X",
        type=_BELOW_ONE,
        default=0.0,
        show_default=False,
        excludes="--validation-file",
        help="Hold out this share of the lines for validation: 0.01 is one in a hundred.",
    ),
    count(
        "--eval-steps", default=1000, help="Evaluate and write the model every N steps."
    ),
)
@option_group(
    "Length and batches",
    _training("epochs", excludes="--steps"),
    count("--steps", help="Number of optimizer steps, instead of --epochs."),
    _training("state"),
    _training("batch_tokens", excludes="--state carry"),
    _training("max_length", excludes="--state carry"),
    _training("batch_size", requires="--state carry"),
    # The loss of Adagrad is multiplied by --unroll.
    _training("unroll", requires="--state carry or --optimizer adagrad"),
)
@option_group(
    "Optimization",
    _training("dropout", type=_BELOW_ONE),
    _training("negative_samples", least=0),
    _training("optimizer"),
    _training("learning_rate", type=_POSITIVE),
    _training("weight_decay", type=_SHARE, excludes="--optimizer adagrad"),
    _training("warmup_steps", least=0),
    _training("decay_share", type=_SHARE),
    _training("max_grad_norm", type=_POSITIVE),
    _training("precision"),
    _training("seed", least=0),
)
@option_group(
    "Run",
    options.device_option(),
    option(
        "--checkpoint-seconds N",
        type=click.FloatRange(min=0),
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
    text_settings: TextSettings,
    start_options: StartOptions,
    run_options: RunOptions,
    **training_options: Any,
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
    model, options_file = start_options.init_from, start_options.options_file
    if not (model or options_file or start_options.preset):
        raise click.UsageError("give --preset, --options-file or --init-from")
    files = (model, None, None) if options_file is None else (None, options_file, model)
    model_settings, is_new = ModelSettings(*files), model is None
    tokenizer = loading.load_tokenizer(
        text_settings, model_settings, texts[0], is_new=is_new
    )
    # By default oneDNN keeps 1,024 products, one per number of rows. Here all numbers differ.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

    from elmo_cli.training.train import train_model

    loading.collect_garbage()
    reading = TextOptions(
        texts, text_settings, tokenizer, validation_file, validation_share
    )
    with messages.stop_on_signal() as should_stop:
        perplexity = train_model(
            reading,
            folder,
            start_options,
            training_options,
            run_options,
            should_stop=should_stop,
        )
    if perplexity is not None:
        click.echo(json_text(perplexity))
    messages.say(f"Wrote the model to {folder}. See its card.md.")
