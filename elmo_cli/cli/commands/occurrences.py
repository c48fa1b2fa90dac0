"""`elmo occurrences`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import open_command_text
from elmo_cli.cli.load_model import load_resolved_engine
from elmo_cli.cli.parameter_types import OUTPUT_PATH, PATH
from elmo_cli.cli.reserve_output import reserve_output
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import TargetSettings
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import OCCURRENCE_FORMATS, OutputSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.runs.file_plan import warn_about_suffix


@command()
@click.argument("text", metavar="INPUT", type=PATH)
@click.argument("output_file", metavar="OUTPUT", type=OUTPUT_PATH)
@shared_options.words_option(required=True)
@field_option(TargetSettings, "match")
@field_option(TargetSettings, "ignore_case")
@option_group(
    "Output",
    shared_options.layers_option("top"),
    shared_options.output_options(
        OCCURRENCE_FORMATS,
        shared_options.keep_columns_option(
            help="Columns of INPUT to copy to Parquet; all copies all but text and ids."
        ),
    ),
)
@shared_options.input_options()
@shared_options.model_options(may_carry=False)
@option_group(
    "Speed", shared_options.speed_options(), shared_options.batch_tokens_option()
)
def occurrences(
    text: str,
    output_file: str,
    words: str,
    **values: Any,
) -> None:
    """Write the vectors of target words in INPUT, one sentence per line, to OUTPUT.

    \b
    $ elmo occurrences corpus.txt bank.parquet --words targets.txt
    $ elmo occurrences book.txt bank.hdf5 --words targets.txt --split-sentences
    $ zcat corpus.gz | elmo occurrences - bank.parquet --words targets.txt

    INPUT is a text, a table, JSON or CoNLL-U, or - for standard input. Only sentences
    with a target word are embedded. How often each word occurs is printed on standard
    error. If none of them occurs, nothing is written, and the exit status is 1.

    OUTPUT is Parquet (.parquet) or HDF5 (.hdf5). Parquet has one row per occurrence:
    its word, form, id, line (from 1), position (from 0), sentence and vector. HDF5 has
    one array per sentence, like `elmo embed`. It is empty if the sentence has no target
    word. To resume an interrupted run to HDF5, run the same command again.

    Next, use `elmo change`, `elmo plot` or `elmo neighbours`. They compare the top
    layer, unless --layers chose others. With `--layers 1,2`, they average both, as in
    files of `elmo embed`.

    A table may say which word each row is about, as in DWUG: in a column
    indexes_target_token, such as 14:18, or in two columns start and end. Then only this
    occurrence counts.

    Parquet needs `pip install "elmo-cli[parquet]"`.
    """
    from elmo_cli.analysis.occurrences.targets import read_targets
    from elmo_cli.analysis.occurrences.write_occurrences import (
        DEFAULT_LAYERS,
        embed_occurrences,
        plan_occurrences,
    )

    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    target_settings = settings_from(TargetSettings, values)
    output_settings = settings_from(OutputSettings, values)
    selection = settings_from(SelectionSettings, values)
    if selection.mix is None and values["layers"] is None:
        selection = replace(selection, layers=DEFAULT_LAYERS)
    targets = read_targets(words)

    from elmo_cli.pretrained.find_model import resolve_model

    reserve_output(text, output_file)
    model = resolve_model(model_settings)
    opened = open_command_text(text, text_settings, model, reads_places=True)
    plan = plan_occurrences(
        opened,
        output_file,
        selection=selection,
        output_settings=output_settings,
        state=model_settings.state,
        match=target_settings.match,
    )
    opened.source.check()  # Loading the model can take a while.
    if output_settings.file_format is None:
        warn_about_suffix(plan)
    engine = load_resolved_engine(
        model,
        check_layers=selection.check_for_model,
        writes_file=True,
        hashes_model=True,
    )
    with (
        stop_on_signal() as should_stop,
        progress_bar.progress_bar(source=text) as bar,
    ):
        counts, summary = embed_occurrences(
            engine,
            plan,
            targets,
            on_progress=partial(progress_bar.show_summary, bar),
            should_stop=should_stop,
            match=target_settings.match,
            ignore_case=target_settings.ignore_case,
        )
    _say_counts(counts)
    if not summary.was_complete:  # embed_file logs it.
        found = counted(sum(counts.values()), "occurrence")
        read = counted(summary.n_records + summary.n_written_earlier, plan.unit)
        if summary.n_written_earlier:
            read += (
                f", {summary.n_written_earlier:,} of which were read in an earlier run"
            )
        stderr.say(f"Wrote {stderr.shown_output(output_file)}: {found} in {read}")


def _say_counts(counts: Mapping[str, int]) -> None:
    """Print the number of occurrences of each word, and warn about missing words."""
    missing = []
    for word, n_occurrences in counts.items():
        if n_occurrences:
            stderr.say(f"{word}: {counted(n_occurrences, 'occurrence')}")
        else:
            missing.append(word)
    if missing:
        number = "" if len(missing) == 1 else f"{len(missing):,} words: "
        stderr.warn(f"no occurrence of {number}{', '.join(missing)}")
