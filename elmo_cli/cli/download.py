"""`elmo download`: get a published model before it is needed."""

import click

from elmo_cli.cli import options


@click.command()
@click.argument("name")
@click.option("--with-softmax", is_flag=True, help="Also download the softmax and its vocabulary.")
@options.verbosity_options
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
