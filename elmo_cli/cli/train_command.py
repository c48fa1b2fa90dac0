"""`elmo train`: text to a model."""

import json
import os
from functools import partial
from pathlib import Path

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.command import command, option_group, receives
from elmo_cli.cli.options import choice, count, flag, option
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.training.training_options import GivenOptions, RunOptions, StartOptions, TextOptions

_POSITIVE = click.FloatRange(0, min_open=True)
_SHARE = click.FloatRange(0, 1)
_BELOW_ONE = click.FloatRange(0, 1, max_open=True)

_number = partial(option, metavar="X")
_file = partial(
    option, metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@command()
@click.argument("texts", metavar="TEXT...", type=options.PATH, nargs=-1, required=True)
@option_group(
    "Model",
    option(
        *("--output", "folder"),
        required=True,
        metavar="FOLDER",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the model. A run that was stopped there is resumed.",
    ),
    choice(
        "--preset",
        ["mini", "small", "medium", "original"],
        excludes="--options-file or --init-from",
        help="Architecture of the bundled model or of one of AllenNLP's.",
    ),
    _file(
        "--options-file",
        help="options.json: the architecture, and bilm-tf's settings if it has them.",
    ),
    option(
        "--init-from",
        shell_complete=options.complete_models,
        metavar="NAME|FOLDER",
        help="Start from the weights of this model: fine-tuning. A file of weights requires "
        "--options-file.",
    ),
    _file(
        "--vocabulary-file",
        help="Words to predict: <S>, </S>, <UNK>, then by falling count. [default: those of the "
        "model of --init-from, else counted]",
    ),
    count(
        "--vocabulary-size",
        least=4,
        excludes="--vocabulary-file",
        help="Number of words to predict, if counted. [default: 25000]",
    ),
)
@options.input_format_options("every TEXT and of --validation-file")
@options.splitting_options("whitespace")
@option_group(
    "Validation",
    _file("--validation-file", help="Text to measure perplexity on."),
    _number(
        "--validation-share",
        type=_BELOW_ONE,
        default=0.0,
        show_default=False,
        excludes="--validation-file",
        help="Share of the lines to measure perplexity on, which are not trained on: 0.01 for one "
        "in a hundred.",
    ),
    count(
        "--eval-steps",
        default=1000,
        help="Steps between evaluations, each of which writes the model.",
    ),
)
@option_group(
    "Length and batches",
    count("--epochs", excludes="--steps", help="Passes over the text. [default: 10]"),
    count("--steps", help="Steps of the optimizer, in place of --epochs."),
    choice(
        "--state",
        ["zero", "carry"],
        help="Initial LSTM state: zero for each sentence, or carried over from block to block of "
        "text, as published. [default: zero]",
    ),
    count(
        "--batch-tokens",
        excludes="--state carry",
        help="Tokens in a batch, with --state zero. [default: 2048]",
    ),
    count(
        "--max-length",
        excludes="--state carry",
        help="Maximum length of a sentence, with --state zero; longer ones are cut. [default: 100]",
    ),
    count(
        "--batch-size",
        requires="--state carry",
        help="Streams of text, with --state carry. [default: 128]",
    ),
    count(
        "--unroll",
        # The loss of Adagrad is multiplied by --unroll.
        requires="--state carry or --optimizer adagrad",
        help="Tokens of a stream in a block, with --state carry. [default: 20]",
    ),
)
@option_group(
    "Optimization",
    _number(
        "--dropout",
        type=_BELOW_ONE,
        help="Dropout of the LSTMs' inputs and of their output. [default: 0.1]",
    ),
    count(
        "--negative-samples",
        least=0,
        help="Words of the sampled softmax; 0 for the full softmax. [default: 8192]",
    ),
    choice(
        "--optimizer", ["adamw", "adagrad"], help="AdamW, or Adagrad as published. [default: adamw]"
    ),
    _number(
        "--learning-rate",
        type=_POSITIVE,
        help="Maximum learning rate. [default: 0.002; Adagrad: 0.2]",
    ),
    _number(
        "--weight-decay",
        type=_SHARE,
        excludes="--optimizer adagrad",
        help="Weight decay of AdamW. [default: 0]",
    ),
    count(
        "--warmup-steps",
        least=0,
        help="Steps over which the learning rate rises, a tenth of the run at most. [default: 200; "
        "Adagrad: 0]",
    ),
    _number(
        "--decay-share",
        type=_SHARE,
        help="Share of the run, at its end, over which the learning rate falls to 0. [default: "
        "0.333; Adagrad: 0]",
    ),
    _number(
        "--max-grad-norm",
        type=_POSITIVE,
        help="Maximum norm of the gradients. [default: 1; Adagrad: 10]",
    ),
    choice(
        "--precision",
        ["float32", "bfloat16"],
        help="Precision of the computation. [default: float32]",
    ),
    count("--seed", least=0, help="Seed of all random numbers. [default: 0]"),
)
@option_group(
    "Run",
    options.device_option(),
    option(
        "--checkpoint-seconds",
        type=click.FloatRange(min=0),
        metavar="N",
        default=300,
        help="Seconds between checkpoints.",
    ),
    flag("--tensorboard", help="Log to FOLDER/tensorboard too."),
    flag("--keep-checkpoint", help="Keep the checkpoint at the end, to train longer later."),
)
@receives(
    text_settings=TextSettings,
    start_options=StartOptions,
    given_options=GivenOptions,
    run_options=RunOptions,
)
def train(
    texts: tuple[str, ...],
    folder: Path,
    validation_file: Path | None,
    validation_share: float,
    text_settings: TextSettings,
    start_options: StartOptions,
    given_options: GivenOptions,
    run_options: RunOptions,
) -> None:
    """Train a model on text, one sentence per line, or resume a run.

    TEXT are files, or patterns in quotes, in any format that `elmo embed` reads. White space
    separates tokens, unless --tokenizer names another tokenizer. FOLDER becomes a model for
    --model: options.json, weights.hdf5, vocab.txt, softmax.hdf5, and card.md, which says how
    it was trained. After Ctrl-C or anything else that ends it, the same command resumes it. The
    perplexity of the validation text goes to standard output as JSON.

    \b
    $ elmo train text.txt --preset mini --epochs 3 --validation-share 0.01 --output my-model
    $ elmo train reviews.parquet --text-column review --preset mini --output reviews
    $ elmo train 'news-*.gz' --preset small --state carry --optimizer adagrad --output news
    $ elmo train texts.txt --init-from mini --epochs 2 --learning-rate 0.0005 --output tuned
    """
    model, options_file = start_options.init_from, start_options.options_file
    if not (model or options_file or start_options.preset):
        raise click.UsageError("expected --preset, --options-file or --init-from")
    model_settings = (
        ModelSettings(model) if options_file is None else ModelSettings(None, options_file, model)
    )
    if model is not None:
        tokenizer = loading.load_tokenizer(text_settings, model_settings, texts[0])
    else:
        loading.check_language(text_settings)
        with loading.usage_errors():
            tokenizer = text_settings.make_tokenizer(model_settings.resolved.language)
    # By default oneDNN keeps 1,024 products, one per number of rows. Here all numbers differ.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

    from elmo_cli.cli.progress import stop_on_signal
    from elmo_cli.training.train import train_model

    loading.collect_garbage()
    text_options = TextOptions(texts, text_settings, tokenizer, validation_file, validation_share)
    with stop_on_signal() as should_stop:
        perplexity = train_model(
            *(text_options, folder, start_options, given_options, run_options),
            should_stop=should_stop,
        )
    if perplexity is not None:
        click.echo(json.dumps(perplexity))
    messages.say(f"{folder}: a model; its card.md says how it was made")
