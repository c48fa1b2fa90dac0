"""`elmo plot`."""

import os
from typing import Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command
from elmo_cli.cli.parameter_types import OUTPUT_PATH, WholeNumber
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import (
    check_not_empty,
    missing_error,
    misused_error,
    swapped_error,
)
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import FIGURE_SUFFIXES, PlotSettings
from elmo_cli.options.fields import settings_from


@command()
@click.argument(
    "arguments",
    metavar="WORD FILE... OUTPUT",
    type=OUTPUT_PATH,
    nargs=-1,
    required=True,
)
@field_option(PlotSettings, "method")
@field_option(PlotSettings, "clusters", type=WholeNumber(2))
@shared_options.stored_layers_option()
@shared_options.overwrite_option()
def plot(
    arguments: tuple[str, ...],
    layers: str | None,
    overwrite: bool,
    **values: Any,
) -> None:
    """Draw the occurrences of WORD in FILE as points.

    \b
    $ elmo plot bank corpus.hdf5 bank.svg
    $ elmo plot bank corpus.hdf5 bank.html --method tsne --clusters 2
    $ elmo plot bank old.parquet new.parquet change.png

    FILE is a file from `elmo occurrences`, an HDF5 file from `elmo embed`, a folder
    from `elmo distribute`, or a pattern such as '*.hdf5'. Several files must have the
    same model and layers. WORD is a target word of `elmo occurrences`, with all its
    forms, or any other word as it is written in FILE. OUTPUT is .svg, .png, .pdf or
    .html.

    Each point is an occurrence. Similar ones are close together, so different uses of a
    word often form separate groups. Some points are labelled. In SVG and HTML, move the
    mouse over a point to see its sentence. Of more than 2,000 occurrences, a random
    2,000 are drawn, the same ones each time.

    With pca, a message on standard error says how much of the variance the two axes
    show. A picture is no test: to measure the difference of two files, use `elmo
    change`.

    This command needs `pip install "elmo-cli[plot]"`.
    """
    if len(arguments) < 3:
        raise missing_error(("FILE", "OUTPUT")[len(arguments) - 1])
    word, *files, output = arguments
    check_not_empty(arguments, ["WORD", *["FILE"] * len(files), "OUTPUT"])
    if os.path.exists(word) and not os.path.exists(files[0]):
        raise swapped_error(files[0], word, *files[1:], output)
    if files[0].endswith(FIGURE_SUFFIXES) and not output.endswith(FIGURE_SUFFIXES):
        raise misused_error(f"{files[0]}: OUTPUT comes last")
    settings = settings_from(PlotSettings, values)

    with progress_bar.progress_bar(" records", leave=False) as bar:
        bar.set_description_str("loading")  # Importing matplotlib takes seconds.

        from elmo_cli.analysis.pictures.plot_occurrences import plot_occurrences
        from elmo_cli.analysis.search.vector_files import open_occurrences

        with open_occurrences(*files, on_progress=bar.update) as opened:
            if opened.has_token_layer(layers):
                stderr.warn(
                    "these vectors include layer 0, which groups words by spelling"
                )
            picture = plot_occurrences(
                opened,
                word,
                output,
                method=settings.method,
                clusters=settings.clusters,
                layers=layers,
                overwrite=overwrite,
                on_step=bar.set_description_str,
            )
    n_occurrences = counted(picture.n_occurrences, "occurrence")
    axes = ""
    if picture.variance:
        shares = " and ".join(f"{share:.0%}" for share in picture.variance)
        axes = f"; the axes show {shares} of the variance"
    stderr.say(f"Wrote {output}: {picture.n_drawn:,} of {n_occurrences}{axes}")
