"""`elmo change`: change of words between two corpora."""

import math
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import command
from elmo_cli.cli.rows import print_rows
from elmo_cli.errors import counted

if TYPE_CHECKING:
    from elmo_cli.analysis.change import Change

_LEVEL = 0.05


@command()
@click.argument("old", type=options.PATH)
@click.argument("new", type=options.PATH)
@options.choice(
    "--measure",
    ["apd", "prt", "jsd"],
    default="apd",
    help="Mean cosine distance of all pairs of occurrences; inverse cosine of the means; or "
    "Jensen-Shannon divergence over clusters.",
)
@options.count(
    "--permutations",
    help="Number of random divisions of the occurrences of a word, for p. [default: none]",
)
@options.choice(
    "--correction",
    ["bh", "bonferroni"],
    requires="--permutations",
    help="Adjustment of p for the number of words: bh (false discovery rate) or bonferroni. "
    "[default: none]",
)
@options.option(
    "--words",
    type=options.PATH,
    metavar="FILE",
    help="Words to compare, one per line, with their forms: lemma,form,form; or a table with the "
    "columns word and form. [default: the target words of OLD and NEW]",
)
@options.input_format_options("the words", "words", "word", requires="--words")
@options.mean_layers_option("compared", "Layers")
@options.option(
    "--plot",
    type=options.PATH,
    metavar="OUT",
    help="Draw the list to OUT: .svg, .png, .pdf or .html.",
)
@options.flag("--overwrite", requires="--plot", help="Replace OUT if it exists.")
@options.format_option()
@options.json_option("one object per word")
def change(
    old: str,
    new: str,
    measure: str,
    permutations: int | None,
    correction: str | None,
    words: str | None,
    input_format: str | None,
    text_column: str | None,
    layers: str | None,
    plot: str | None,
    overwrite: bool,
    row_format: str | None,
    as_json: bool,
) -> None:
    """Measure the change of words from OLD to NEW, and list the most changed word first.

    OLD and NEW are what `elmo usages` wrote for two corpora, in any format, or patterns of
    such names; or with --words, HDF5 of all tokens. Prints a table with a header and one row
    per word: the word, its change, and the number of its occurrences in OLD and in NEW. With
    --permutations also p, the share of random divisions of all its occurrences that change
    as much; with --correction also the adjusted p, because among many words some have a small
    p by chance. Words with fewer than 3 occurrences in OLD or NEW are skipped.

    \b
    $ elmo usages old.txt old.parquet --words targets.txt
    $ elmo usages new.txt new.parquet --words targets.txt
    $ elmo change old.parquet new.parquet --permutations 10000 --correction bh
    $ elmo change old.npz new.npz --measure prt --plot change.svg
    $ elmo change old.hdf5 new.hdf5 --words targets.txt --json
    """
    from elmo_cli.analysis.change import measure_change, read_occurrences
    from elmo_cli.analysis.target_words import read_targets
    from elmo_cli.cli.runs import progress_bar

    if plot is not None:
        from elmo_cli.analysis.figures import check_figure

        check_figure(plot, overwrite=overwrite)
    targets = None if words is None else read_targets(words, input_format, text_column)
    with progress_bar(" records") as bar:
        bar.leave = False
        occurrences = read_occurrences(old, new, targets, layers, on_progress=bar.update)
    with progress_bar(" words") as bar:
        bar.leave = False
        changes = measure_change(
            *occurrences,
            measure,
            permutations=permutations or 0,
            correction=correction,
            on_progress=bar.update,
        )
    _print(changes, measure, row_format, as_json=as_json)
    if correction is not None:
        _check_permutations(changes, permutations or 0)
    if plot is not None:
        from elmo_cli.analysis.change_plot import plot_changes

        n_drawn = plot_changes(changes, plot, measure, overwrite=overwrite)
        messages.say(f"{plot}: {counted(n_drawn, 'word')}")


def _print(changes: "list[Change]", measure: str, row_format: str | None, *, as_json: bool) -> None:
    """Print the words with a change, and name the others on standard error."""
    from elmo_cli.analysis.change import MIN_OCCURRENCES, change_columns

    measured = [change for change in changes if change.change is not None]
    names = change_columns(measured)
    is_json = as_json or row_format == "json"
    constants = {"measure": measure} if is_json else {}
    with print_rows(row_format, names, as_json=as_json) as rows:
        rows.write(([getattr(change, name) for name in names] for change in measured), constants)
    for change in changes[len(measured) :]:
        numbers = f"{counted(change.n_old, 'occurrence')} in OLD and {change.n_new:,} in NEW"
        messages.say(f"{change.word}: skipped: {numbers}; {MIN_OCCURRENCES} are needed in each")


def _check_permutations(changes: "list[Change]", permutations: int) -> None:
    """Print a warning if a single changed word cannot have a small adjusted p."""
    n_words = sum(change.p is not None for change in changes)
    least = n_words / (permutations + 1)
    if least >= _LEVEL:
        needed = math.ceil(n_words / _LEVEL)
        messages.say(
            f"Warning: with {permutations:,} permutations of {counted(n_words, 'word')}, the "
            f"adjusted p of a single changed word is at least {min(1.0, least):.2g}. Use "
            f"--permutations {needed} or more."
        )
