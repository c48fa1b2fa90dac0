"""`elmo download`: get a published model before it is needed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import flags

if TYPE_CHECKING:
    from elmo_cli.pretrained.download import OnProgress


@click.command()
@click.argument("name")
@click.option(
    "--with-softmax", is_flag=True, help="Also get the softmax and vocabulary, for perplexity."
)
@flags.verbosity_options
def download(name: str, with_softmax: bool) -> None:
    """Download the model NAME, and print the folder that it is in.

    What is there is not downloaded again, and what broke off goes on where it was.
    `elmo models` lists the names; the environment variable ELMO_CACHE names another
    folder to keep models in.

    \b
    $ elmo download original
    """
    from elmo_cli.pretrained.loading import download_model, model_named

    model = model_named(name)
    with progress_bars() as on_progress:
        files = download_model(model, with_softmax=with_softmax, on_progress=on_progress)
    click.echo(files.weights.parent)


@contextmanager
def progress_bars() -> Iterator["OnProgress"]:
    """Give an `OnProgress` that draws a bar a file on stderr, if that is a terminal."""
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def show(name: str, n_bytes: int, total: int | None) -> None:
        if name not in bars:
            # What an earlier run has brought does not count for the speed.
            bars[name] = tqdm(
                **{"desc": name, "total": total, "initial": n_bytes, "disable": None},
                **{"unit": "B", "unit_scale": True, "file": sys.stderr},
            )
        bars[name].update(n_bytes - bars[name].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()
