"""`elmo plot`."""

from functools import partial

import click

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import command
from elmo_cli.errors.wording import counted


@command()
@click.argument(
    "arguments",
    metavar="WORD FILE... OUTPUT",
    type=options.PATH,
    nargs=-1,
    required=True,
)
@options.choice(
    "--method", ["pca", "tsne"], default="pca", help="Projection of the vectors."
)
@options.count(
    "--clusters",
    least=2,
    help="Colour N clusters found by k-means. [default: one colour per FILE]",
)
@options.mean_layers_option()
@options.output_option()
@options.overwrite_option()
def plot(
    arguments: tuple[str, ...],
    method: str,
    clusters: int | None,
    layers: str | None,
    overwrite: bool,
) -> None:
    """Draw the occurrences of WORD in FILE as points, to OUTPUT: .svg, .png, .pdf or .html.

    FILE may be any file from `elmo usages`, HDF5 from `elmo embed`, a folder from `elmo
    distribute`, or a pattern such as '*.hdf5'. In `elmo usages` files, WORD includes all its
    forms. Similar occurrences are close together, so that the senses of a word such as "bank"
    form separate groups. Some points have a label, and in SVG and HTML each point shows its
    sentence under the mouse pointer. The legend lists the files in their order. At most 2,000
    occurrences are drawn. The command needs pip install "elmo-cli[plot]".

    \b
    $ elmo plot bank corpus.hdf5 bank.svg
    $ elmo plot bank corpus.hdf5 bank.html --method tsne --clusters 2
    $ elmo plot bank old.parquet new.parquet change.png
    """
    if len(arguments) < 3:
        raise click.UsageError(
            "give WORD FILE... OUTPUT, as in `elmo plot bank old.hdf5 bank.svg`"
        )
    word, *files, output = arguments

    with messages.progress_bar(" records", leave=False) as bar:
        bar.set_description_str("loading")

        from elmo_cli.analysis.occurrence_picture import plot_occurrences
        from elmo_cli.analysis.vector_files import open_occurrences

        with open_occurrences(*files, on_progress=bar.update) as opened:
            if opened.has_token_layer(layers):
                messages.say(
                    "Warning: layer 0 in these vectors separates words by spelling."
                )
            draw = partial(
                plot_occurrences, method=method, clusters=clusters, layers=layers
            )
            on_step = bar.set_description_str
            picture = draw(opened, word, output, overwrite=overwrite, on_step=on_step)
    shares = " and ".join(f"{share:.0%}" for share in picture.variance)
    drawn = f"{picture.n_drawn:,} of {counted(picture.n_occurrences, 'occurrence')}"
    axes = f"; the axes show {shares} of the variance" if shares else ""
    messages.say(f"Wrote {output}: {drawn}{axes}")
