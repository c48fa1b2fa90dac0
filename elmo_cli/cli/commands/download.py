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
    "surprisal`, `elmo predict` and fine-tuning use. Only original and original-5.5b "
    "have one.",
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

    NAME is a name that `elmo models` lists, or hf:OWNER/NAME for a model on the Hugging
    Face hub. Afterwards, --model NAME works offline. Files that are there already are
    not downloaded again.

    Listed models are stored in the folder ELMO_CACHE (by default ~/.cache/elmo-cli),
    and models of the hub in HF_HOME (~/.cache/huggingface). To delete a listed model,
    use `elmo models --remove NAME`.

    If you already have the files of a listed model, add --from. They are checked and
    copied, with the softmax if it is among them.
    """
    if sources:
        from elmo_cli.pretrained.import_files import import_model

        click.echo(import_model(name, sources))
        return
    from elmo_cli.pretrained.find_model import find_files_by_name

    click.echo(find_files_by_name(name, with_softmax=with_softmax).weights.parent)
