"""`elmo download`."""

import click

from elmo_cli.cli import shared_options
from elmo_cli.cli.command import command
from elmo_cli.cli.value_completion import complete_models


@command()
@click.argument("name", shell_complete=complete_models)
@shared_options.flag(
    "--with-softmax",
    help="Also download the softmax and its vocabulary, which `elmo perplexity`, `elmo "
    "surprisal`, `elmo predict` and fine-tuning use.",
)
@shared_options.path_option(
    "--from FILE|FOLDER",
    "sources",
    multiple=True,
    excludes=["--with-softmax"],
    help=(
        "Copy the files from here instead of downloading them: a folder, a zip file or "
        "single files. Can be repeated."
    ),
)
def download(name: str, with_softmax: bool, sources: tuple[str, ...]) -> None:
    """Download the model NAME and print its folder.

    \b
    $ elmo download original
    $ elmo download hf:lysandre/elmo
    $ elmo download original --from ~/Downloads/elmo

    NAME is a name listed by `elmo models`, or hf:OWNER/NAME for a model on the Hugging
    Face hub. Existing files are not downloaded again. To store models in another
    folder, set the environment variable ELMO_CACHE, or HF_HOME for the hub. If
    ELMO_MIRROR is set, that mirror is tried first.

    If you already have the files, --from copies them into the cache folder, with the
    softmax if it is there. NAME must then be one that `elmo models` lists. The files
    must be complete and have the published SHA-256 of NAME, if there is one.
    """
    if sources:
        from elmo_cli.pretrained.import_files import import_model

        click.echo(import_model(name, sources))
        return
    from elmo_cli.pretrained.find_model import find_files_by_name

    click.echo(find_files_by_name(name, with_softmax=with_softmax).weights.parent)
