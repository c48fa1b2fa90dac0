"""`elmo train`: text to a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import flags

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _count(name: str, least: int, text: str) -> Decorator:
    return click.option(name, type=click.IntRange(min=least), metavar="N", help=text)


def _number(name: str, text: str) -> Decorator:
    return click.option(name, type=float, metavar="X", help=text)


@click.command()
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "--output",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the model goes. A run that was stopped there goes on.",
)
@click.option(
    "--preset",
    type=click.Choice(["mini", "small", "medium", "original"]),
    help="The architecture of the bundled model or of AllenNLP's.",
)
@click.option(
    "--options-file",
    metavar="FILE",
    type=_FILE,
    help="options.json: the architecture, and bilm-tf's settings where they are in it.",
)
@click.option(
    "--from",
    "from_model",
    metavar="NAME|FOLDER",
    help="Start from the weights of a model: fine-tuning. A file of weights goes with "
    "--options-file.",
)
@click.option("--heldout", metavar="FILE", type=_FILE, help="Text to measure perplexity on.")
@click.option(
    "--heldout-share",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    metavar="X",
    help="In its place: the share of the lines that is held out, 0.01 for one in a hundred.",
)
@click.option(
    "--vocabulary-file",
    metavar="FILE",
    type=_FILE,
    help="Words to predict: <S>, </S>, <UNK>, then by falling count. [default: those of the model "
    "to start from, else counted]",
)
@_count("--vocabulary-size", 4, "Words to predict, where they are counted. [default: 25000]")
@_count("--epochs", 1, "Passes over the text. [default: 10]")
@_count("--steps", 1, "Steps of the optimizer, in place of --epochs.")
@click.option(
    "--state",
    type=click.Choice(["zero", "carry"]),
    help="Start every sentence from the zero state; or carry it through blocks of text, as "
    "published. [default: zero]",
)
@_count("--batch-tokens", 1, "With --state zero: tokens in a batch. [default: 2048]")
@_count("--longest-sentence", 1, "With --state zero: longer sentences are cut. [default: 100]")
@_count("--batch-size", 1, "With --state carry: streams of text. [default: 128]")
@_count("--unroll", 1, "With --state carry: tokens of a stream in a block. [default: 20]")
@_number("--dropout", "Of the inputs of the LSTMs and of their output. [default: 0.1]")
@_count("--samples", 0, "Words of the sampled softmax; 0 for the full one. [default: 8192]")
@click.option(
    "--optimizer",
    type=click.Choice(["adamw", "adagrad"]),
    help="AdamW, or Adagrad as published. [default: adamw]",
)
@_number("--learning-rate", "[default: 0.002; Adagrad: 0.2]")
@_number("--weight-decay", "Of AdamW. [default: 0]")
@_count(
    "--warmup-steps",
    0,
    "While the learning rate rises, a tenth of the run at most. [default: 200; Adagrad: 0]",
)
@_number(
    "--decay-share",
    "The last part of the run, over which the learning rate falls to 0. [default: 0.333; "
    "Adagrad: 0]",
)
@_number("--clip-norm", "The most the norm of the gradients may be. [default: 1; Adagrad: 10]")
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    help="Of the arithmetic. [default: float32]",
)
@_count("--seed", 0, "Of all that is random. [default: 0]")
@click.option(
    "--cuda",
    "cuda_device",
    type=click.IntRange(min=-1),
    default=-1,
    metavar="N",
    help="Train on GPU number N; under torchrun, on a GPU a process. [default: the CPU]",
)
@click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(min=0),
    default=300,
    show_default=True,
    metavar="N",
    help="How much work an end without warning can cost.",
)
@click.option(
    "--evaluate-steps",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Steps until the model is written and measured again.",
)
@click.option("--tensorboard", is_flag=True, help="Log to FOLDER/tensorboard too.")
@flags.verbosity_options
def train(texts: tuple[str, ...], folder: Path, **settings: Any) -> None:
    """Train a model on tokenized text, a sentence a line, or go on with a run.

    TEXT are files, plain or gzip, or patterns in quotes. FOLDER becomes a model for
    --model: options.json, weights.hdf5, vocab.txt, softmax.hdf5, and card.md, which says
    how it was made. After Ctrl-C or anything else that ends it, the same command goes on.
    The held-out perplexity goes to standard output, as JSON.

    \b
    $ elmo train text.txt --preset mini --epochs 3 --heldout-share 0.01 --output my-model
    $ elmo train 'news-*.gz' --preset small --state carry --optimizer adagrad --output news
    $ elmo train texts.txt --from mini --epochs 2 --learning-rate 0.0005 --output tuned
    """
    flags.refuse_standard_input("TEXT", *texts)
    flags.refuse_standard_input("--heldout", settings["heldout"] or "")
    sources = [settings["options_file"], settings["preset"], settings["from_model"]]
    if sources.count(None) == 3:
        raise click.UsageError("expected --preset, --options-file or --from")
    if settings["preset"] is not None and sources.count(None) < 2:
        raise click.UsageError("--preset takes the place of --options-file and --from")
    if settings["epochs"] is not None and settings["steps"] is not None:
        raise click.UsageError("--steps takes the place of --epochs")
    if settings["heldout"] is not None and settings["heldout_share"]:
        raise click.UsageError("--heldout-share takes the place of --heldout")

    _check_effects(settings)

    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.training.train import train_model

    with stop_on_signal() as should_stop:
        perplexity = train_model(texts, folder, should_stop=should_stop, **settings)
    if perplexity is not None:
        click.echo(json.dumps(perplexity))
    flags.say(f"{folder}: a model; its card.md says how it was made")


def _check_effects(settings: dict[str, Any]) -> None:
    """Refuse settings that would do nothing beside the others."""
    carries = settings["state"] == "carry"
    adagrad = settings["optimizer"] == "adagrad"
    counts_words = settings["vocabulary_file"] is None
    flags.check_effect(carries, "requires --state carry", "batch_size")
    # The loss of Adagrad is multiplied by it.
    flags.check_effect(
        carries or adagrad, "requires --state carry or --optimizer adagrad", "unroll"
    )
    flags.check_effect(not carries, "requires --state zero", "batch_tokens", "longest_sentence")
    flags.check_effect(not adagrad, "requires --optimizer adamw", "weight_decay")
    flags.check_effect(counts_words, "has no effect with --vocabulary-file", "vocabulary_size")
