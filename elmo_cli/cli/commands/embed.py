"""`elmo embed`."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import Decorator, command, option_group
from elmo_cli.cli.command_texts import open_command_text
from elmo_cli.cli.load_model import load_resolved_engine
from elmo_cli.cli.option_conditions import options_on_command_line
from elmo_cli.cli.parameter_types import OUTPUT_PATH, PATH
from elmo_cli.cli.reserve_output import reserve_output
from elmo_cli.cli.shared_options import command_option, field_option, flag
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.errors.messages import Template
from elmo_cli.errors.wording import counted, rate_text
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import (
    OUTPUT_FORMATS,
    STANDARD_OUTPUT,
    OutputSettings,
)
from elmo_cli.options.output_format import HDF5
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.runs.file_plan import FilePlan, plan_file, warn_about_suffix

if TYPE_CHECKING:
    from elmo_cli.engine import Engine
    from elmo_cli.runs.file_sink import Summary

_LAYERS = ["--layers", "--mix", "--all", "--top", "--average"]
"""Options that choose layers. Only one of them may be given."""


class _EmbedSettings(NamedTuple):
    """What is read, computed and written."""

    text: TextSettings
    selection: SelectionSettings
    output: OutputSettings


def _old_flag(name: str, parameter: str, layers: str) -> Decorator:
    """Add a flag of AllenNLP that chooses layers. The help does not show it."""
    return flag(
        name,
        parameter,
        excludes=_LAYERS,
        hidden=True,
        help=f"As in AllenNLP: --layers {layers}, text split at spaces, and HDF5 "
        "without --format.",
    )


@command()
@click.argument("input_file", metavar="INPUT", type=PATH)
@click.argument("output_file", metavar="OUTPUT", type=OUTPUT_PATH)
@shared_options.selection_options()
@shared_options.output_options(
    OUTPUT_FORMATS,
    field_option(OutputSettings, "rows"),
    shared_options.keep_columns_option(
        help="Columns of INPUT to copy to Parquet or jsonl; all copies all but "
        "text and ids."
    ),
)
@shared_options.input_options()
@shared_options.model_options(shows_files=True)
@option_group(
    "Speed", shared_options.speed_options(), shared_options.batch_tokens_option()
)
@option_group(
    "AllenNLP's old flags",
    _old_flag("--all", parameter="all_layers", layers="all"),
    _old_flag("--top", parameter="top_layer", layers="top"),
    _old_flag("--average", parameter="average_layers", layers="average"),
    shared_options.batch_size_option(hidden=True),
    field_option(OutputSettings, "forget_sentences", hidden=True),
    field_option(OutputSettings, "use_sentence_keys", hidden=True),
    flag(
        "--file-friendly-logging",
        hidden=True,
        help="Show progress as one line every 10 seconds.",
    ),
    command_option(
        "--vocab-path", hidden=True, expose_value=False, help="Ignored, with a warning."
    ),
    command_option(
        "--include-package",
        multiple=True,
        hidden=True,
        expose_value=False,
        help="Ignored, with a warning.",
    ),
)
def embed(
    input_file: str,
    output_file: str,
    all_layers: bool,
    top_layer: bool,
    average_layers: bool,
    batch_size: int,
    file_friendly_logging: bool,
    **values: Any,
) -> None:
    """Embed INPUT, one sentence per line, and write the vectors to OUTPUT.

    \b
    $ elmo embed sentences.txt vectors.hdf5
    $ elmo embed book.txt vectors.hdf5 --paragraphs --split-sentences
    $ elmo embed items.csv tokens.parquet --rows tokens --keep-columns all
    $ elmo embed text.txt sentences.parquet --layers average --pooling mean
    $ elmo embed proteins.fasta vectors.h5 --model seqvec --layers sum
    $ zcat text.gz | elmo embed - - --pooling mean --format jsonl > vectors.jsonl

    INPUT is a text, a table, JSON, CoNLL-U or FASTA, perhaps compressed, or - for
    standard input. Raw text is tokenized. Tokenized text is split at spaces.

    OUTPUT is HDF5, unless its suffix or --format says otherwise. It has one array per
    line, shaped (layers, tokens, width), or (tokens, width) for a single layer, and
    named by its id in INPUT or its number, from "0" on. A blank line gets an empty one.

    OUTPUT appears once it is complete. To resume an interrupted run, repeat the
    command: HDF5 continues at its last checkpoint, other formats start over.
    """
    model_settings = settings_from(ModelSettings, values)
    settings = _EmbedSettings(
        text=settings_from(TextSettings, values),
        selection=settings_from(SelectionSettings, values),
        output=settings_from(OutputSettings, values),
    )
    has_format = settings.output.file_format is not None
    _warn_about_options_without_effect()
    old_layers = _layers_of_old_flags(
        all_layers=all_layers, top_layer=top_layer, average_layers=average_layers
    )
    if old_layers is not None:
        settings = _like_allennlp(settings, old_layers)

    from elmo_cli.pretrained.find_model import resolve_model

    reserve_output(input_file, output_file)
    model = resolve_model(model_settings)
    text_input = open_command_text(input_file, settings.text, model)
    plan = plan_file(
        text_input,
        output_file,
        selection=settings.selection,
        output_settings=settings.output,
        state=model_settings.state,
        batch_size=batch_size,
    )
    text_input.source.check()  # Loading the model can take a while.
    if not has_format:
        warn_about_suffix(plan)
    engine = load_resolved_engine(
        model,
        check_layers=settings.selection.check_for_model,
        writes_file=output_file != STANDARD_OUTPUT,
        hashes_model=True,
    )
    _warn_about_batch_size(engine)

    from elmo_cli.runs.embed_file import embed_file

    with (
        stop_on_signal() as should_stop,
        progress_bar.progress_bar(
            source=input_file, as_lines=file_friendly_logging
        ) as bar,
    ):
        summary = embed_file(
            engine,
            plan,
            batch_size,
            on_progress=partial(progress_bar.show_summary, bar),
            should_stop=should_stop,
        )
    if not summary.was_complete:  # embed_file logs it.
        _say_what_was_written(plan, summary)


def _warn_about_options_without_effect() -> None:
    for name in options_on_command_line("--vocab-path", "--include-package"):
        stderr.warn(f"{name} has no effect. It is only accepted for old scripts.")


def _layers_of_old_flags(
    *, all_layers: bool, top_layer: bool, average_layers: bool
) -> str | None:
    """Return the value of `--layers` that one of AllenNLP's flags stands for."""
    if all_layers:
        return "all"
    if top_layer:
        return "top"
    if average_layers:
        return "average"
    return None


def _like_allennlp(settings: _EmbedSettings, layers: str) -> _EmbedSettings:
    """Return the settings that AllenNLP's flag for these layers stands for.

    A tokenizer and a format that the user names stay.
    """
    text_settings = settings.text
    output = settings.output
    if not options_on_command_line("--tokenizer"):  # AllenNLP split at white space.
        text_settings = replace(text_settings, tokenizer=None)
    if output.file_format is None:  # AllenNLP wrote HDF5 whatever the name was.
        output = replace(output, file_format=HDF5.name)
    return _EmbedSettings(
        text=text_settings,
        selection=replace(settings.selection, layers=layers),
        output=output,
    )


def _warn_about_batch_size(engine: "Engine") -> None:
    if engine.state != "carry" and options_on_command_line("--batch-size"):
        stderr.warn(Template("{--batch-size} is ignored: it requires {--state carry}"))


def _say_what_was_written(plan: FilePlan, summary: "Summary") -> None:
    unit = "sentence" if plan.text_input.format.is_plain else plan.unit
    n_sentences = counted(summary.n_records + summary.n_written_earlier, unit)
    n_tokens = counted(summary.n_tokens, "token")
    rate = rate_text(summary.n_tokens, summary.seconds)
    if summary.n_written_earlier:
        n_sentences += f", {summary.n_written_earlier:,} of them in an earlier run"
        n_tokens += " in this run"
    stderr.say(
        f"Wrote {stderr.shown_output(plan.output_path)}: {n_sentences}, {n_tokens}"
        f"{rate}"
    )
