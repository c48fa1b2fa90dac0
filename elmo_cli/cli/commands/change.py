"""`elmo change`."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command
from elmo_cli.cli.parameter_types import PATH, WholeNumber
from elmo_cli.cli.row_printer import open_row_printer
from elmo_cli.cli.shared_options import field_option
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import ChangeSettings, TargetSettings
from elmo_cli.options.fields import settings_from

if TYPE_CHECKING:
    from elmo_cli.analysis.change.measure_change import Change

_LEVEL = 0.05
"""Level of significance."""


@command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@field_option(ChangeSettings, "measure")
@field_option(ChangeSettings, "permutations", default=None, type=WholeNumber(1))
@field_option(ChangeSettings, "correction", requires=["--permutations"])
@shared_options.words_option(default_text="the target words of OLD and NEW")
@field_option(ChangeSettings, "match")
@field_option(
    TargetSettings,
    "ignore_case",
    requires=["--words"],
    help="Match --words regardless of case.",
)
@shared_options.stored_layers_option()
@shared_options.row_options()
@shared_options.figure_options("the changes, at most 100,")
@shared_options.input_format_option(
    requires=["--words"], help="Format of --words; see `elmo help formats`."
)
@shared_options.text_column_option(
    help="Column of --words with the words.",
    default_text="word",
    requires=["--words"],
    hidden=True,
)
def change(
    old: str,
    new: str,
    words: str | None,
    input_format: str | None,
    text_column: str | None,
    ignore_case: bool,
    layers: str | None,
    plot: str | None,
    overwrite: bool,
    row_format: str | None,
    **values: Any,
) -> None:
    """Measure how much words changed from OLD to NEW, the most changed word first.

    \b
    $ elmo occurrences old.txt old.parquet --words targets.txt
    $ elmo occurrences new.txt new.parquet --words targets.txt
    $ elmo change old.parquet new.parquet --permutations 10000 --correction bh
    $ elmo change old.parquet new.parquet --measure prt --plot change.svg
    $ elmo change old.hdf5 new.hdf5 --words targets.txt --format csv

    OLD and NEW are files from `elmo occurrences` for two corpora, or patterns of such
    names. With --words, they can also be HDF5 files from `elmo embed` or folders from
    `elmo distribute`. Both need the same model, layers and tokenizer.

    The output is a table with one row per word: word, change, and n_old and n_new, the
    numbers of its occurrences. Words with fewer than 3 occurrences in OLD or in NEW are
    skipped, with a message.

    The occurrences of a word differ within a corpus too, so even a word that did not
    change gets some change. To see whether it could be due to chance, add
    --permutations: all occurrences of the word are divided at random into two groups of
    the original sizes, N times, and p is the share of divisions with at least this much
    change. Repeated runs give the same p.

    Out of many words, some have a small p by chance, so --correction adds adjusted_p.
    To look at the occurrences of a word, use `elmo plot`.

    The measure jsd needs `pip install "elmo-cli[sklearn]"`, and --plot needs `pip
    install "elmo-cli[plot]"`.
    """
    from elmo_cli.analysis.change.measure_change import change_columns, measure_change
    from elmo_cli.analysis.change.occurrence_matrices import read_occurrences
    from elmo_cli.analysis.occurrences.targets import read_targets

    settings = settings_from(ChangeSettings, values)
    if plot is not None:
        from elmo_cli.analysis.pictures.drawing import check_figure

        check_figure(plot, overwrite=overwrite)
    targets = None
    if words is not None:
        targets = read_targets(words, input_format=input_format, column=text_column)
    with progress_bar.progress_bar(" records", leave=False) as bar:
        old_occurrences, new_occurrences = read_occurrences(
            old,
            new,
            words=targets,
            layers=layers,
            match=settings.match,
            ignore_case=ignore_case,
            on_progress=bar.update,
        )
    with progress_bar.progress_bar(" words", leave=False) as bar:
        changes = measure_change(
            old_occurrences,
            new_occurrences,
            measure=settings.measure,
            permutations=settings.permutations,
            correction=settings.correction,
            on_progress=bar.update,
        )
    names = change_columns(
        has_p=settings.permutations > 0, has_adjusted_p=settings.correction is not None
    )
    _print(changes, names, row_format)
    if old == new:
        stderr.warn("OLD and NEW are the same file")
    if settings.correction is not None:
        _check_permutations(changes, settings.permutations)
    if plot is not None:
        from elmo_cli.analysis.pictures.plot_changes import plot_changes

        n_drawn = plot_changes(changes, plot, settings.measure, overwrite=overwrite)
        advice = ""
        if settings.permutations == 0:
            advice = ". Add --permutations 1000 to see how much changes by chance"
        words = counted(n_drawn, "word")
        n_measured = len([each for each in changes if each.change is not None])
        if n_drawn < n_measured:
            words = f"{n_drawn} of {counted(n_measured, 'word')}"
        stderr.say(f"Wrote {plot}: {words}{advice}")


def _print(
    changes: "list[Change]", names: Sequence[str], row_format: str | None
) -> None:
    """Print a row per word that was measured, and a line about each other word."""
    from elmo_cli.analysis.change.measure_change import MIN_OCCURRENCES

    measured = [change for change in changes if change.change is not None]
    rows = [[getattr(change, name) for name in names] for change in measured]
    with open_row_printer(row_format, names) as writer:
        writer.write(rows)
    for change in changes:
        if change.change is None:
            n_old = counted(change.n_old, "occurrence")
            stderr.say(
                f"Skipped {change.word}: {n_old} in OLD and {change.n_new:,} in NEW. "
                f"Each needs {MIN_OCCURRENCES}."
            )


def _check_permutations(changes: "list[Change]", permutations: int) -> None:
    """Print a warning if a single changed word cannot have a small adjusted p."""
    n_words = len([change for change in changes if change.p is not None])
    least = n_words / (permutations + 1)
    if least >= _LEVEL:
        needed = math.ceil(n_words / _LEVEL)
        stderr.warn(
            f"with {permutations:,} permutations of {counted(n_words, 'word')}, the "
            "adjusted p of a single changed word is at least "
            f"{min(1.0, least):.2g}",
            f"Use {{--permutations {needed}}} or more.",
        )
