"""`elmo plot`: the uses of a word as a picture."""

import click

from elmo_cli.cli import messages, options
from elmo_cli.quantities import counted


@options.command()
@click.argument("arguments", metavar="WORD FILE... OUT", type=options.PATH, nargs=-1, required=True)
@options.choice("--method", ["pca", "tsne"], default="pca", help="How vectors become points.")
@options.count(
    "--clusters",
    least=2,
    help="Colour by so many clusters of k-means. [default: by FILE]",
)
@options.mean_layers_option("drawn")
@options.overwrite_option
def plot(
    arguments: tuple[str, ...],
    method: str,
    clusters: int | None,
    layers: str | None,
    overwrite: bool,
) -> None:
    """Draw the uses of WORD in FILEs as points, to OUT: .svg, .png, .pdf or .html.

    FILE is what `elmo embed` wrote, in HDF5, a folder of `elmo distribute`, or a pattern of
    such names. Uses that ELMo takes for alike lie close together; those that differ, as
    the two senses of "bank", part. Some have a label; in SVG and HTML each one shows its
    sentence when it is pointed at. An HTML page needs nothing else. Of more than 2,000 uses,
    2,000 are drawn. Needs pip install "elmo-cli[plot]".

    \b
    $ elmo plot bank corpus.hdf5 bank.svg
    $ elmo plot bank corpus.hdf5 bank.html --method tsne --clusters 2
    $ elmo plot bank old.hdf5 new.hdf5 change.png
    """
    if len(arguments) < 3:
        raise click.UsageError("expected WORD FILE... OUT")
    word, *files, output = arguments

    from elmo_cli.analysis.plot import plot_uses
    from elmo_cli.analysis.uses import has_token_layer
    from elmo_cli.outputs.reader import open_activations

    with open_activations(*files) as activations:
        if has_token_layer(activations, layers):
            messages.say("Warning: layer 0 is in these vectors; it knows words by their spelling.")
        picture = plot_uses(
            *(activations, word, output),
            method=method,
            clusters=clusters,
            layers=layers,
            overwrite=overwrite,
        )
    shares = " and ".join(f"{share:.0%}" for share in picture.variance)
    messages.say(
        f"{output}: {counted(picture.n_drawn, 'use')} of {picture.n_uses:,}"
        + (f"; the axes show {shares} of the variance" if shares else "")
    )
