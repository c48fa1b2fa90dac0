"""`elmo train`: text to a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import options
from elmo_cli.cli.options import GroupedCommand, option_group

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _count(name: str, least: int, text: str, **more: Any) -> Decorator:
    return click.option(name, type=click.IntRange(min=least), metavar="N", help=text, **more)


def _number(name: str, text: str) -> Decorator:
    return click.option(name, type=float, metavar="X", help=text)


@click.command(cls=GroupedCommand)
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@option_group(
    "Model",
    click.option(
        "--output",
        "folder",
        required=True,
        metavar="FOLDER",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the model. A run that was stopped there is resumed.",
    ),
    click.option(
        "--preset",
        type=click.Choice(["mini", "small", "medium", "original"]),
        help="Architecture of the bundled model or of one of AllenNLP's.",
    ),
    click.option(
        "--options-file",
        metavar="FILE",
        type=_FILE,
        help="options.json: the architecture, and bilm-tf's settings if it has them.",
    ),
    click.option(
        "--init-from",
        metavar="NAME|FOLDER",
        help="Start from the weights of this model: fine-tuning. A file of weights requires "
        "--options-file.",
    ),
    click.option(
        "--vocabulary-file",
        metavar="FILE",
        type=_FILE,
        help="Words to predict: <S>, </S>, <UNK>, then by falling count. [default: those of the "
        "model of --init-from, else counted]",
    ),
    _count("--vocabulary-size", 4, "Number of words to predict, if counted. [default: 25000]"),
)
@option_group(
    "Validation",
    click.option(
        "--validation-file", metavar="FILE", type=_FILE, help="Text to measure perplexity on."
    ),
    click.option(
        "--validation-share",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        metavar="X",
        help="Share of the lines to measure perplexity on, which are not trained on: 0.01 for one "
        "in a hundred.",
    ),
    _count(
        *("--eval-steps", 1, "Steps between evaluations, each of which writes the model."),
        default=1000,
        show_default=True,
    ),
)
@option_group(
    "Length and batches",
    _count("--epochs", 1, "Passes over the text. [default: 10]"),
    _count("--steps", 1, "Steps of the optimizer, in place of --epochs."),
    click.option(
        "--state",
        type=click.Choice(["zero", "carry"]),
        help="Initial LSTM state: zero for each sentence, or carried over from block to block of "
        "text, as published. [default: zero]",
    ),
    _count("--batch-tokens", 1, "Tokens in a batch, with --state zero. [default: 2048]"),
    _count(
        *("--max-length", 1),
        "Maximum length of a sentence, with --state zero; longer ones are cut. [default: 100]",
    ),
    _count("--batch-size", 1, "Streams of text, with --state carry. [default: 128]"),
    _count("--unroll", 1, "Tokens of a stream in a block, with --state carry. [default: 20]"),
)
@option_group(
    "Optimization",
    _number("--dropout", "Dropout of the LSTMs' inputs and of their output. [default: 0.1]"),
    _count(
        *("--negative-samples", 0),
        "Words of the sampled softmax; 0 for the full softmax. [default: 8192]",
    ),
    click.option(
        "--optimizer",
        type=click.Choice(["adamw", "adagrad"]),
        help="AdamW, or Adagrad as published. [default: adamw]",
    ),
    _number("--learning-rate", "Maximum learning rate. [default: 0.002; Adagrad: 0.2]"),
    _number("--weight-decay", "Weight decay of AdamW. [default: 0]"),
    _count(
        *("--warmup-steps", 0),
        "Steps over which the learning rate rises, a tenth of the run at most. [default: 200; "
        "Adagrad: 0]",
    ),
    _number(
        "--decay-share",
        "Share of the run, at its end, over which the learning rate falls to 0. [default: 0.333; "
        "Adagrad: 0]",
    ),
    _number("--max-grad-norm", "Maximum norm of the gradients. [default: 1; Adagrad: 10]"),
    click.option(
        "--precision",
        type=click.Choice(["float32", "bfloat16"]),
        help="Precision of the computation. [default: float32]",
    ),
    _count("--seed", 0, "Seed of all random numbers. [default: 0]"),
)
@click.option(
    "--cuda",
    "cuda_device",
    type=click.IntRange(min=-1),
    default=-1,
    metavar="N",
    help="Train on GPU number N; under torchrun, on one GPU a process. [default: the CPU]",
)
@click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(min=0),
    default=300,
    show_default=True,
    metavar="N",
    help="Seconds between checkpoints.",
)
@click.option("--tensorboard", is_flag=True, help="Log to FOLDER/tensorboard too.")
@options.verbosity_options
def train(texts: tuple[str, ...], folder: Path, **settings: Any) -> None:
    """Train a model on tokenized text, a sentence a line, or resume a run.

    TEXT are files, plain or gzip, or patterns in quotes. FOLDER becomes a model for
    --model: options.json, weights.hdf5, vocab.txt, softmax.hdf5, and card.md, which says
    how it was made. After Ctrl-C or anything else that ends it, the same command resumes it.
    The perplexity of the validation text goes to standard output, as JSON.

    \b
    $ elmo train text.txt --preset mini --epochs 3 --validation-share 0.01 --output my-model
    $ elmo train 'news-*.gz' --preset small --state carry --optimizer adagrad --output news
    $ elmo train texts.txt --init-from mini --epochs 2 --learning-rate 0.0005 --output tuned
    """
    _check_usage(texts, settings)

    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.training.train import train_model

    with stop_on_signal() as should_stop:
        perplexity = train_model(texts, folder, should_stop=should_stop, **settings)
    if perplexity is not None:
        click.echo(json.dumps(perplexity))
    options.say(f"{folder}: a model; its card.md says how it was made")


def _check_usage(texts: tuple[str, ...], settings: dict[str, Any]) -> None:
    """Refuse options that do not go together, or have no effect."""
    options.refuse_standard_input("TEXT", *texts)
    options.refuse_standard_input("--validation-file", settings["validation_file"] or "")
    sources = [settings["options_file"], settings["preset"], settings["init_from"]]
    if sources.count(None) == 3:
        raise click.UsageError("expected --preset, --options-file or --init-from")
    if settings["preset"] is not None and sources.count(None) < 2:
        raise click.UsageError("--preset takes the place of --options-file and --init-from")
    if settings["epochs"] is not None and settings["steps"] is not None:
        raise click.UsageError("--steps takes the place of --epochs")
    if settings["validation_file"] is not None and settings["validation_share"]:
        raise click.UsageError("--validation-share takes the place of --validation-file")

    carries = settings["state"] == "carry"
    adagrad = settings["optimizer"] == "adagrad"
    counts_words = settings["vocabulary_file"] is None
    check = options.check_effect
    check(carries, "requires --state carry", "batch_size")
    # The loss of Adagrad is multiplied by it.
    check(carries or adagrad, "requires --state carry or --optimizer adagrad", "unroll")
    check(not carries, "requires --state zero", "batch_tokens", "max_length")
    check(not adagrad, "requires --optimizer adamw", "weight_decay")
    check(counts_words, "has no effect with --vocabulary-file", "vocabulary_size")
