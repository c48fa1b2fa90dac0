"""`elmo surprisal`."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.parameter_types import PATH, names_with_commas
from elmo_cli.cli.row_printer import RowPrinter, print_rows
from elmo_cli.cli.scored_text import open_scored_text, score_options, source_of
from elmo_cli.cli.shared_options import choice, command_option, flag, path_option
from elmo_cli.cli.value_completion import complete_columns
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import counted
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import (
    DEFAULT_BATCH_SIZE,
    DIRECTIONS,
    Direction,
    ModelSettings,
)
from elmo_cli.options.text import TextSettings
from elmo_cli.records.formats import find_format
from elmo_cli.records.input_format import TextInput
from elmo_cli.text.sources import Source

if TYPE_CHECKING:
    from elmo_cli.analysis.surprisal_picture import Measured
    from elmo_cli.language_model.surprisal_table import SurprisalTable
    from elmo_cli.language_model.units import UnitKind
    from elmo_cli.pretrained.find import ResolvedModel


@dataclass(frozen=True)
class _SurprisalSettings:
    direction: Direction = "forward"
    entropy: bool = False
    by: "UnitKind | None" = None
    words_by: str | None = None
    regions: str | None = None
    frequencies: str | None = None
    pairs: tuple[str, ...] | None = None
    group_by: str | None = None
    plot: str | None = None
    overwrite: bool = False
    row_format: str | None = None
    batch_size: int = DEFAULT_BATCH_SIZE


@command()
@click.argument("inputs", metavar="INPUT...", type=PATH, nargs=-1, required=True)
@option_group(
    "Rows",
    choice(
        "--by",
        ["token", "word", "region", "sentence"],
        excludes=["--pair-columns"],
        help=(
            "Unit of a row: token, word (between spaces), region (of --regions) or "
            "sentence. [default: token, or region with --regions, or word with "
            "--word-column]"
        ),
    ),
    choice(
        "--words-by",
        ["space", "word"],
        excludes=["--pair-columns"],
        hidden=True,
        help="Same as --by word.",
    ),
    command_option(
        "--regions COLUMN",
        excludes=["--pair-columns", "--text-column", "--word-column"],
        shell_complete=complete_columns,
        help=(
            "Column of texts whose regions are separated by `|`: print one row per "
            "region, or with --by word, one row per word with its region."
        ),
    ),
    choice(
        "--direction",
        DIRECTIONS,
        default="forward",
        help="Predict each token from the tokens before it, after it, or each in turn.",
    ),
    flag(
        "--entropy",
        excludes=["--pair-columns"],
        help="Also print the entropy of each prediction.",
    ),
    path_option(
        "--frequencies FILE",
        excludes=["--pair-columns"],
        help=(
            "Word counts for the log frequencies, one word and its count per line. "
            "[default: estimated from ranks in the vocabulary]"
        ),
    ),
    command_option(
        "--pair-columns GOOD,BAD",
        "pairs",
        aliases=("--pairs",),
        type=names_with_commas,
        shell_complete=complete_columns,
        help="Compare the two sentences of each row, in the columns GOOD and BAD.",
    ),
    command_option(
        "--group-by COLUMN",
        requires=["--pair-columns"],
        shell_complete=complete_columns,
        help="Also print the accuracy of --pair-columns for each value of COLUMN.",
    ),
)
@option_group(
    "Output",
    shared_options.row_options(),
    shared_options.keep_columns_option,
    shared_options.figure_options(
        "the first 50 sentences as bars", excludes=["--pair-columns"]
    ),
)
@score_options(shows_cells=True, shows_softmax=True)
def surprisal(
    inputs: tuple[str, ...],
    **values: Any,
) -> None:
    """Print the surprisal of each token of INPUT, one sentence per line.

    \b
    $ elmo surprisal "The keys to the cabinet are on the table."
    $ elmo surprisal stimuli.csv --by word --keep-columns all --plot words.html
    $ elmo surprisal story.csv --word-column word --id-column story
    $ elmo surprisal pairs.csv --pair-columns good,bad --group-by phenomenon
    $ zcat text.gz | elmo surprisal - --entropy --format csv > surprisal.csv

    INPUT is a text file, a table such as CSV, - for standard input, or the text itself,
    if it contains a space. Only --pair-columns takes several INPUTs. By default, raw
    text is recognized and tokenized (moses); tokenized text is split at spaces.

    The output is a table with one row per token. Its columns are:

    \b
    id or line     id of the record, or its line number, from 1
    position       position of the token in its sentence, from 0
    token          the token
    surprisal      in bits; unknown words get that of <UNK>, so exclude them
    log_frequency  in bits; log_frequency_by_rank without --frequencies
    length         number of characters
    known          1 if the word is in the vocabulary, else 0

    With --by word, region or sentence, each row has the sums over its tokens. --entropy
    adds the expected surprisal at each position, in bits. With --pair-columns, each row
    is a pair of sentences with their surprisals, and 1 if the good one is more
    probable.
    """
    choices = settings_from(_SurprisalSettings, values)
    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    if len(inputs) > 1 and not choices.pairs:
        raise click.UsageError(_several_inputs(inputs))
    sources = [source_of(given) for given in inputs]
    for source in sources:
        source.check()  # Loading the model can take a while.
    if choices.plot is not None:
        from elmo_cli.analysis.drawing import check_figure

        check_figure(choices.plot, overwrite=choices.overwrite)
    unit = _unit(choices, text_settings)
    if choices.pairs or choices.regions:
        for source in sources:
            _check_is_table(source, text_settings, choices)
    if choices.regions:
        text_settings = replace(text_settings, text_column=choices.regions)
    resolved = loading.resolve(model_settings)
    if choices.pairs:
        _print_pairs(sources, text_settings, choices, resolved)
        return
    [source] = sources
    by_word = unit == "word"
    opened = loading.open_text(
        source,
        text_settings,
        resolved,
        lines_are_texts=by_word or source.path is None,
        splits_words=by_word,
    )
    _print_units(opened, unit, choices, resolved)


def _several_inputs(inputs: tuple[str, ...]) -> str:
    """Return the error of several inputs without pairs."""
    problem = "several INPUTs require --pair-columns"
    sources = [Source(given) for given in inputs]
    if all(source.is_file and find_format(source).is_plain for source in sources):
        piped = f"cat {shlex.join(inputs)} | elmo surprisal -"
        return f"{problem}. To read several texts, pipe them: {piped}"
    if any(source.is_file for source in sources):
        return problem
    text = shlex.quote(" ".join(inputs))
    return f"{problem}. Put a text in quotes: elmo surprisal {text}"


def _check_is_table(
    source: Source, text_settings: TextSettings, choices: _SurprisalSettings
) -> None:
    """Raise a `UsageError` if an input without columns should have pairs or regions."""
    input_format = find_format(source, text_settings.input_format)
    if not input_format.has_columns:
        name = "--pair-columns" if choices.pairs else "--regions"
        raise click.UsageError(f"{name} requires a table, found {input_format.name}")


def _unit(choices: _SurprisalSettings, text_settings: TextSettings) -> "UnitKind":
    """Return the unit of a row; raise a `UsageError` if the input cannot have it."""
    if text_settings.word_column is not None:
        if choices.by not in (None, "word"):
            raise click.UsageError(
                f"choose one of --by {choices.by} and --word-column, which has words"
            )
        return "word"
    if choices.by == "region" and choices.regions is None:
        raise click.UsageError("--by region requires --regions")
    if choices.by == "sentence" and choices.regions is not None:
        raise click.UsageError("choose one of --by sentence and --regions")
    if choices.by is not None:
        return choices.by
    if choices.words_by is not None:
        return "word"
    return "token" if choices.regions is None else "region"


def _print_units(
    text: TextInput,
    unit: "UnitKind",
    choices: _SurprisalSettings,
    resolved: "ResolvedModel",
) -> None:
    from elmo_cli.analysis.surprisal_picture import MAX_SENTENCES, plot_surprisals
    from elmo_cli.language_model.surprisal_table import SurprisalTable
    from elmo_cli.language_model.units import ignore_marks

    if choices.regions is not None:
        text = replace(
            text,
            tokenizer=ignore_marks(text.tokenizer),
            column_option="--regions",
        )
    log_frequencies = None
    if choices.frequencies is not None:
        log_frequencies = _read_frequencies(choices.frequencies)
    table = SurprisalTable(
        unit=unit,
        direction=choices.direction,
        with_entropy=choices.entropy,
        log_frequencies=log_frequencies,
        with_regions=choices.regions is not None and unit != "region",
        with_sentence_numbers=text.splits_records,
    )
    model = loading.load_language_model(resolved)
    drawn: list[Measured] = []
    tally = _Tally()
    with open_scored_text(
        text, model, may_have_regions=True, region_column=choices.regions
    ) as opened:
        columns = [*opened.columns, *table.columns]
        kept = opened.records.example.columns
        with print_rows(choices.row_format, columns, kept) as rows:
            for scored in table.measure(
                model,
                opened.records.records,
                choices.batch_size,
                opened.records.is_ready,
            ):
                _write_units(rows, table, scored)
                if scored.result and len(drawn) < MAX_SENTENCES:
                    drawn.append(scored)
                tally.add(scored)
                opened.show_rate(tally.n_tokens)
    _say_tally(tally, choices.frequencies)
    if tally.n_sharing:
        _say_sharing(tally, unit)
    if choices.plot is not None:
        n_drawn = plot_surprisals(
            drawn, choices.plot, choices.direction, overwrite=choices.overwrite
        )
        stderr.say(f"Wrote {choices.plot}: {counted(n_drawn, 'sentence')}")


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
        stderr.say(f"Warning: {warning}")
    return read.log_frequencies


def _say_sharing(tally: "_Tally", unit: "UnitKind") -> None:
    """Print a warning about words or regions that have tokens in common."""
    sharing = f"{counted(tally.n_sharing, unit)}, such as {tally.sharing!r},"
    has = "has" if tally.n_sharing == 1 else "have"
    stderr.say(
        f"Warning: {sharing} {has} a token with characters of another {unit}. Each of "
        "them gets the whole surprisal of the token."
    )


def _say_tally(tally: "_Tally", frequencies: str | None) -> None:
    """Print the number of tokens, and a warning about words without a frequency.

    `frequencies` is the file that should have it, if the user gave one.
    """
    stderr.say(
        f"{counted(tally.n_tokens, 'token')}, {tally.n_unknown:,} of them unknown"
    )
    if frequencies is not None and tally.few_have_frequencies:
        stderr.say(
            f"Warning: {tally.n_without_frequency:,} of {counted(tally.n_rows, 'row')} "
            f"have no log frequency, because {frequencies} does not contain their "
            "words. Name its columns word and count."
        )


def _write_units(rows: RowPrinter, table: "SurprisalTable", scored: "Measured") -> None:
    """Write the rows of a record. A word that was a row keeps its columns."""
    units = scored.result
    word_columns = scored.record.word_columns
    if not word_columns:
        rows.write(map(table.row, units), scored.record.columns, scored.names)
        return
    for word, columns in zip(units, word_columns, strict=True):
        rows.write([table.row(word)], columns, scored.names)


class _Tally:
    """Numbers of tokens and rows."""

    def __init__(self) -> None:
        self.n_tokens = 0
        self.n_unknown = 0
        self.n_rows = 0
        self.n_without_frequency = 0
        self.n_sharing = 0
        self.sharing = ""
        """First unit that shares a token with another one."""

    def add(self, scored: "Measured") -> None:
        """Count the tokens and rows of a record."""
        self.n_tokens += len(scored.record.tokens)
        self.n_rows += len(scored.result)
        for unit in scored.result:
            self.n_unknown += unit.n_unknown
            if unit.log_frequency is None:
                self.n_without_frequency += 1
            if not unit.is_whole:
                self.n_sharing += 1
                self.sharing = self.sharing or unit.text

    @property
    def few_have_frequencies(self) -> bool:
        """True if most rows have no log frequency."""
        return 2 * self.n_without_frequency > self.n_rows


def _print_pairs(
    sources: list[Source],
    text_settings: TextSettings,
    choices: _SurprisalSettings,
    resolved: "ResolvedModel",
) -> None:
    """Print the pairs of one or several tables, and how many are correct.

    The first table decides the tokenizer. Several tables have a column `file`, by which
    the accuracy is grouped unless another group is chosen.
    """
    from elmo_cli.language_model.pairs import Accuracy, PairTable, pair_columns
    from elmo_cli.records.open_input import open_input

    table = PairTable(choices.pairs or (), text_settings, choices.group_by)
    first = loading.open_text(sources[0], table.reading, resolved)
    texts = [first]
    for source in sources[1:]:
        texts.append(open_input(source, table.reading, first.tokenizer))
    for text in texts:
        names = text.format.column_names(text.source, text.settings)
        if names and text.format.lists_columns:
            table.check_columns(names, text.source.name)
    model = loading.load_language_model(resolved)
    accuracy = Accuracy(choices.direction)
    rows: RowPrinter | None = None
    name_columns: Sequence[str] = ()
    with ExitStack() as printing:
        for text in texts:
            file = [text.source.name] if len(texts) > 1 else []
            pairs = replace(text, column_option="--pair-columns")
            with open_scored_text(pairs, model, may_have_regions=True) as opened:
                if rows is None:
                    name_columns = opened.columns
                    columns = [*name_columns, *pair_columns(choices.direction)]
                    if file:
                        columns.insert(0, "file")
                    kept = table.kept_columns(opened.records.example)
                    rows = printing.enter_context(
                        print_rows(choices.row_format, columns, kept)
                    )
                if opened.columns != name_columns:
                    raise _other_names(text.source.name, opened.columns, name_columns)
                for scored in table.measure(
                    model,
                    opened.records.records,
                    text.tokenizer,
                    choices.batch_size,
                    opened.records.is_ready,
                    direction=choices.direction,
                ):
                    row = [*file, *scored.names, *scored.result.row]
                    rows.write([row], scored.record.columns)
                    accuracy.add(scored.result, table.group_of(scored.record, *file))
    for line in accuracy.lines():
        stderr.say(line)
    stderr.say(
        f"{counted(accuracy.n_pairs, 'pair')}, {accuracy.n_unknown:,} of them with "
        "unknown words"
    )


def _other_names(
    name: str, columns: Sequence[str], first_columns: Sequence[str]
) -> InputError:
    """Return the error of a table whose rows have other names than the first one's."""
    return InputError(
        Message(
            "{name}: its rows are named by {columns}, and those of the first INPUT by "
            "{first_columns}",
            remedy="Choose a column of all of them with {--id-column}.",
            name=name,
            columns=" and ".join(columns),
            first_columns=" and ".join(first_columns),
        )
    )
