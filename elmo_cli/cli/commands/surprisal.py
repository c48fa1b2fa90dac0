"""`elmo surprisal`."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import open_command_text
from elmo_cli.cli.load_model import load_resolved_language_model
from elmo_cli.cli.parameter_types import PATH, TEXT_OR_PATH, names_with_commas
from elmo_cli.cli.row_printer import RowPrinter, open_row_printer
from elmo_cli.cli.scored_text import (
    check_options_of_typed_text,
    is_typed_text,
    open_scored_text,
    score_options,
    source_of,
)
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import check_lists, extra_arguments_error
from elmo_cli.cli.value_completion import complete_columns
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Template, option_named
from elmo_cli.errors.wording import counted
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.surprisal import SurprisalSettings, UnitKind
from elmo_cli.options.text import TextSettings
from elmo_cli.records.formats import find_format
from elmo_cli.records.input_format import TextInput
from elmo_cli.text.sources import Source

if TYPE_CHECKING:
    from elmo_cli.language_model.pairs import PairTable
    from elmo_cli.language_model.surprisal_run import SurprisalSummary
    from elmo_cli.pretrained.find_model import ResolvedModel


@command("surprisal", "--pair-columns GOOD,BAD INPUT...")
@click.argument("inputs", metavar="INPUT", type=TEXT_OR_PATH, nargs=-1, required=True)
@option_group(
    "Rows",
    field_option(SurprisalSettings, "by"),
    field_option(
        SurprisalSettings,
        "regions",
        excludes=["--text-column", "--word-column"],
        shell_complete=complete_columns,
    ),
    field_option(SurprisalSettings, "direction"),
    field_option(SurprisalSettings, "entropy"),
    field_option(SurprisalSettings, "frequencies", type=PATH),
    field_option(
        SurprisalSettings,
        "pair_columns",
        excludes=[
            "--by",
            "--regions",
            "--entropy",
            "--frequencies",
            "--plot",
            "--text-column",
            "--word-column",
        ],
        type=names_with_commas,
        shell_complete=complete_columns,
    ),
    field_option(
        SurprisalSettings,
        "group_by",
        requires=["--pair-columns"],
        shell_complete=complete_columns,
    ),
)
@option_group(
    "Output",
    shared_options.row_options(),
    shared_options.keep_columns_option(),
    shared_options.figure_options("the first 50 sentences as bars"),
)
@score_options()
def surprisal(
    inputs: tuple[str, ...],
    plot: str | None,
    overwrite: bool,
    row_format: str | None,
    batch_size: int,
    **values: Any,
) -> None:
    """Measure the surprisal of the tokens or words of INPUT, in bits.

    \b
    $ elmo surprisal "The keys to the cabinet are on the table."
    $ elmo surprisal stimuli.csv --by word --keep-columns all --plot words.html
    $ elmo surprisal story.csv --word-column word --id-column story
    $ elmo surprisal pairs.csv --pair-columns good,bad --group-by phenomenon
    $ zcat text.gz | elmo surprisal - --entropy --format csv > surprisal.csv

    INPUT is a text file with one sentence per line, a table such as CSV, or - for
    standard input. If there is no such file, an INPUT with a space is the text itself.
    Texts may be raw or tokenized. Blank lines get no rows, but they are counted.

    You get a table with one row per token: its surprisal given the tokens before it,
    its log frequency and its length in characters. The less the model expected a token,
    the higher is its surprisal. If known is 0, the token is not in the vocabulary.
    Leave such rows out, because all unknown words have the surprisal of <UNK>.

    With --by word, --by region or --by sentence, each row is such a unit, and its
    surprisal is the sum over its tokens.

    With --pair-columns, INPUT is one or more tables with two sentences per row. You get
    the surprisals of both, and correct is 1 if GOOD is more probable than BAD. The
    share of correct pairs is printed on standard error.

    For the perplexity of a text, use `elmo perplexity`, and for the words that the
    model expects, `elmo predict`.
    """
    settings = settings_from(SurprisalSettings, values)
    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    _check_number_of_inputs(inputs, settings)
    if any(map(is_typed_text, inputs)):
        check_options_of_typed_text()
    sources = [source_of(given) for given in inputs]
    for source in sources:
        source.check()  # Loading the model can take a while.
    if plot is not None:
        from elmo_cli.analysis.pictures.drawing import check_figure

        check_figure(plot, overwrite=overwrite)
    unit = settings.unit_of(text_settings)
    if settings.pair_columns or settings.regions:
        for source in sources:
            _check_is_table(source, text_settings, settings)
    if settings.regions:
        text_settings = replace(text_settings, text_column=settings.regions)

    from elmo_cli.pretrained.find_model import resolve_model

    resolved = resolve_model(model_settings)
    if settings.pair_columns:
        _print_pairs(
            sources,
            text_settings=text_settings,
            settings=settings,
            resolved=resolved,
            row_format=row_format,
            batch_size=batch_size,
        )
        return
    [source] = sources
    # The spaces between words and the marks of regions are those of a text.
    lines_are_texts = unit in ("word", "region") or source.path is None
    opened = open_command_text(
        source,
        text_settings,
        resolved,
        lines_are_texts=lines_are_texts,
        splits_words=unit == "word",
    )
    summary = _print_units(
        opened,
        unit=unit,
        settings=settings,
        resolved=resolved,
        row_format=row_format,
        batch_size=batch_size,
    )
    if plot is not None:
        from elmo_cli.analysis.pictures.plot_surprisals import plot_surprisals

        drawn = summary.first_records
        n_drawn = plot_surprisals(
            [measured.result for measured in drawn],
            plot,
            settings.direction,
            names=[str(measured.record.id or measured.names[-1]) for measured in drawn],
            overwrite=overwrite,
        )
        sentences = counted(summary.n_with_tokens, "sentence")
        if n_drawn < summary.n_with_tokens:
            sentences = f"{n_drawn} of {sentences}"
        stderr.say(f"Wrote {plot}: {sentences}")


def _check_number_of_inputs(
    inputs: tuple[str, ...], settings: SurprisalSettings
) -> None:
    """Raise an error for several INPUTs without pairs, or for a split list."""
    if settings.pair_columns is None:
        if len(inputs) > 1:
            takes = "several INPUTs only with --pair-columns"
            raise extra_arguments_error(inputs, n_expected=1, takes=takes)
    elif len(settings.pair_columns) == 1:
        check_lists(inputs)


def _check_is_table(
    source: Source, text_settings: TextSettings, settings: SurprisalSettings
) -> None:
    """Raise an error if an input without columns should have pairs or regions."""
    input_format = find_format(source, text_settings.input_format)
    if not input_format.has_columns:
        name = "--regions"
        remedy = "To split a text at |, use {--by region}."
        if settings.pair_columns:
            name = "--pair-columns"
            remedy = "Name its format with {--input-format}."
        raise SettingsError(
            "{option}: requires a table, found {found}",
            remedy=remedy,
            option=option_named(name),
            found=input_format.name,
        )


def _print_units(
    text_input: TextInput,
    unit: UnitKind,
    settings: SurprisalSettings,
    resolved: "ResolvedModel",
    *,
    row_format: str | None,
    batch_size: int,
) -> "SurprisalSummary":
    """Print the rows of a text, and return what was measured."""
    from elmo_cli.analysis.pictures.plot_surprisals import MAX_SENTENCES
    from elmo_cli.language_model.surprisal_run import run_surprisal
    from elmo_cli.language_model.surprisal_table import SurprisalTable
    from elmo_cli.language_model.units import ignore_marks

    has_marks = settings.regions is not None or unit == "region"
    if has_marks and text_input.splits_lines:
        # Its sentences become records, which have no marks.
        raise SettingsError(
            Template("{--split-sentences True} with {--by region}: requires a table"),
            remedy="Remove {--split-sentences True}.",
        )
    if has_marks:
        tokenizer = ignore_marks(text_input.tokenizer)
        text_input = replace(text_input, tokenizer=tokenizer)
    if settings.regions is not None:
        text_input = replace(text_input, text_option="--regions")
    log_frequencies = None
    if settings.frequencies is not None:
        log_frequencies = _read_frequencies(settings.frequencies)
    table = SurprisalTable(
        unit=unit,
        direction=settings.direction,
        entropy=settings.entropy,
        log_frequencies=log_frequencies,
        with_regions=settings.regions is not None and unit != "region",
        with_sentence_numbers=text_input.splits_records,
    )
    model = load_resolved_language_model(resolved, settings.direction)
    with open_scored_text(
        text_input, model, may_have_regions=True, splits_regions=has_marks
    ) as opened:
        columns = [*opened.columns, *table.columns]
        kept = opened.records.example.columns
        with open_row_printer(row_format, columns, kept) as rows:
            summary = run_surprisal(
                table,
                model,
                opened.records,
                write=rows.write,
                batch_size=batch_size,
                n_first=MAX_SENTENCES,
                on_tokens=opened.show_rate,
            )
    _say_counts(summary, settings.frequencies)
    if summary.n_sharing:
        _say_sharing(summary, unit)
    return summary


def _read_frequencies(path: str) -> dict[str, float]:
    """Read a table of frequencies.

    Print which columns were read, and a warning about words with several counts.
    """
    from elmo_cli.language_model.frequency_file import read_frequencies

    read = read_frequencies(path)
    stderr.say(
        f"Frequencies: counts from column {read.count_column} of {path}, words from "
        f"column {read.word_column}"
    )
    warning = read.warning(path)
    if warning is not None:
        stderr.warn(warning)
    return read.log_frequencies


def _say_sharing(summary: "SurprisalSummary", unit: UnitKind) -> None:
    """Print a warning about words or regions that have tokens in common."""
    sharing = f"{counted(summary.n_sharing, unit)}, such as {summary.sharing!r},"
    has = "has" if summary.n_sharing == 1 else "have"
    stderr.warn(
        f"{sharing} {has} a token with characters of another {unit}. Each of them gets "
        "the whole surprisal of the token."
    )


def _say_counts(summary: "SurprisalSummary", frequencies: str | None) -> None:
    """Print the number of tokens, and a warning about words without a frequency.

    `frequencies` is the file that should have it, if the user gave one.
    """
    if summary.n_tokens == 0:  # An empty table has been warned of.
        return
    advice = ""
    if summary.n_unknown > 0:
        advice = ". Exclude rows with known 0."
    n_tokens = counted(summary.n_tokens, "token")
    stderr.say(f"Unknown: {summary.n_unknown:,} of {n_tokens}{advice}")
    if frequencies is not None and summary.few_have_frequencies:
        n_rows = counted(summary.n_rows, "row")
        stderr.warn(
            f"{summary.n_without_frequency:,} of {n_rows} have no log frequency, "
            f"because {frequencies} does not contain their words",
            "Name its columns word and count.",
        )


def _print_pairs(
    sources: list[Source],
    text_settings: TextSettings,
    settings: SurprisalSettings,
    resolved: "ResolvedModel",
    *,
    row_format: str | None,
    batch_size: int,
) -> None:
    """Print the pairs of one or several tables, and how many are correct.

    Several tables have a column `file`, by which the accuracy is grouped unless another
    group is chosen.
    """
    from elmo_cli.language_model.pairs import (
        Accuracy,
        PairTable,
        pair_columns,
        run_pairs,
    )

    table = PairTable(settings.pair_columns or (), text_settings, settings.group_by)
    text_inputs = _open_tables_of_pairs(sources, table, resolved)
    model = load_resolved_language_model(resolved, settings.direction)
    accuracy = Accuracy(settings.direction)
    rows: RowPrinter | None = None
    first_names: Sequence[str] = ()
    with ExitStack() as printing:
        for text_input in text_inputs:
            name = text_input.source.name
            pairs = replace(text_input, text_option="--pair-columns")
            with open_scored_text(pairs, model, may_have_regions=True) as opened:
                if rows is None:
                    # The first table, once it is open, decides the columns of all.
                    first_names = opened.columns
                    columns = [*first_names, *pair_columns(settings.direction)]
                    if len(text_inputs) > 1:
                        columns = ["file", *columns]
                    kept = table.kept_columns(opened.records.example)
                    rows = printing.enter_context(
                        open_row_printer(row_format, columns, kept)
                    )
                elif opened.columns != first_names:
                    raise _other_names_error(
                        name, columns=opened.columns, first_columns=first_names
                    )
                run_pairs(
                    table,
                    model,
                    opened.records,
                    accuracy,
                    write=rows.write,
                    text_input=text_input,
                    batch_size=batch_size,
                    direction=settings.direction,
                    file=name if len(text_inputs) > 1 else None,
                )
    for line in accuracy.lines():
        stderr.say(line)
    stderr.say(
        f"{counted(accuracy.n_pairs, 'pair')}, {accuracy.n_unknown:,} of them with "
        "unknown words"
    )


def _open_tables_of_pairs(
    sources: list[Source], table: "PairTable", resolved: "ResolvedModel"
) -> list[TextInput]:
    """Open the tables, and check their columns before the model is loaded.

    The first table decides the tokenizer.
    """
    from elmo_cli.records.open_input import open_input

    first = open_command_text(sources[0], table.reading, resolved)
    text_inputs = [first]
    for source in sources[1:]:
        text_inputs.append(open_input(source, table.reading, first.tokenizer))
    for text_input in text_inputs:
        names = text_input.format.column_names(text_input.source, text_input.settings)
        if names and text_input.format.lists_columns:
            table.check_columns(names, text_input.source.name)
    return text_inputs


def _other_names_error(
    name: str, columns: Sequence[str], first_columns: Sequence[str]
) -> InputError:
    """Return the error of a table whose rows have other names than the first one's."""
    return InputError(
        f"{name}: its rows are named by {' and '.join(columns)}, and "
        f"those of the first INPUT by {' and '.join(first_columns)}",
        remedy="Choose a column of all of them with {--id-column}.",
    )
