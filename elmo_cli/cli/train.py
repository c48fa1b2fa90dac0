"""`elmo train`: text to a model."""

import json
from pathlib import Path

import click

from elmo_cli.cli import flags

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True, type=_FILE)
@click.option(
    "--output",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the model goes; training continues from a checkpoint found there.",
)
@click.option(
    "--options-file",
    required=True,
    metavar="FILE",
    type=_FILE,
    help="options.json: the architecture.",
)
@click.option("--steps", required=True, type=click.IntRange(min=1), metavar="N", help="Batches.")
@click.option("--heldout", metavar="FILE", type=_FILE, help="Text to measure perplexity on.")
@click.option(
    "--vocabulary-file",
    metavar="FILE",
    type=_FILE,
    help="Words to predict, by falling count. [default: counted]",
)
@click.option(
    "--vocabulary-size",
    type=click.IntRange(min=4),
    default=25_000,
    show_default=True,
    metavar="N",
    help="Words to predict, where they are counted.",
)
@click.option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    metavar="N",
    help="Tokens in a batch.",
)
@click.option(
    "--learning-rate",
    type=float,
    default=2e-3,
    show_default=True,
    metavar="RATE",
    help="Reached after a warm-up; falls to 0 over the last third of the steps.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Of all that is random."
)
@flags.verbosity_options
def train(
    texts: tuple[Path, ...],
    folder: Path,
    options_file: Path,
    steps: int,
    heldout: Path | None,
    vocabulary_file: Path | None,
    vocabulary_size: int,
    batch_tokens: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Train a model on tokenized text, a sentence a line, best shuffled.

    A first, simple trainer: every sentence starts from the zero state, the loss is
    a sampled softmax, the optimizer AdamW. FOLDER gets options.json, weights.hdf5,
    vocab.txt, softmax.hdf5, training.json and checkpoint.pt, and is a model for --model.

    \b
    $ elmo train text.txt --options-file options.json --steps 5000 --output model
    """
    from elmo_cli.training import TrainingOptions, train_model

    options = TrainingOptions(
        steps=steps, batch_tokens=batch_tokens, learning_rate=learning_rate, seed=seed
    )
    perplexities = train_model(
        texts,
        folder,
        options_file,
        options,
        heldout=heldout,
        vocabulary_file=vocabulary_file,
        vocabulary_size=vocabulary_size,
    )
    click.echo(json.dumps(perplexities))
