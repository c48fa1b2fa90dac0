"""`elmo models` and `elmo download`: the models that have a name."""

import json
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import options

if TYPE_CHECKING:
    from elmo_cli.pretrained.registry import PublishedModel


@options.command()
@options.json_option("a list of objects")
def models(as_json: bool) -> None:
    """List the models that have a name.

    A bundled or downloaded model works offline. An available one is downloaded on
    first use, or with `elmo download`.

    \b
    $ elmo models
    """
    from elmo_cli.pretrained.registry import MODELS

    found = [_describe(model) for model in MODELS]
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    rows = [["name", "parameters", "language", "size", "state", "trained on"]]
    rows += [_row(model) for model in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = (1, 3)  # to the right
    for row in rows:
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


@options.command()
@click.argument("name")
@options.flag("--with-softmax", help="Also download the softmax and its vocabulary.")
def download(name: str, with_softmax: bool) -> None:
    """Download the model NAME, and print the folder that it is in.

    What is there is not downloaded again. `elmo models` lists the names; the environment
    variable ELMO_CACHE names another folder to keep models in.

    \b
    $ elmo download original
    """
    from elmo_cli.cli.progress import download_bars
    from elmo_cli.pretrained.cache import download_model
    from elmo_cli.pretrained.loading import model_named

    model = model_named(name)
    with download_bars() as on_progress:
        files = download_model(model, with_softmax=with_softmax, on_progress=on_progress)
    click.echo(files.weights.parent)


def _describe(model: "PublishedModel") -> dict[str, Any]:
    from elmo_cli.pretrained.cache import model_state, n_bytes_here

    return {
        "name": model.name,
        "parameters": model.parameters,
        "language": model.language,
        "bytes": n_bytes_here(model) or model.download_bytes,
        "state": model_state(model),
        "trained_on": model.text,
    }


def _row(model: dict[str, Any]) -> list[str]:
    parameters, n_bytes = model["parameters"], model["bytes"]
    return [
        model["name"],
        "-" if parameters is None else f"{parameters / 1e6:.1f}M",
        model["language"],
        "-" if n_bytes is None else f"{n_bytes / 1e6:,.0f} MB",
        model["state"],
        model["trained_on"] or "-",
    ]
