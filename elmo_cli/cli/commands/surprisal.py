"""`elmo surprisal`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import RowWriter, print_rows
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.options import PATH, choice, flag, option, path_option
from elmo_cli.cli.scored_text import OpenText, open_text, score_options
from elmo_cli.errors.wording import counted
from elmo_cli.options.model import (
    DEFAULT_BATCH_SIZE,
    DIRECTIONS,
    Direction,
    ModelSettings,
)
from elmo_cli.options.text import TextSettings
from elmo_cli.records.formats import find_format
from elmo_cli.records.text_input import TextInput
from elmo_cli.text.sources import Source

if TYPE_CHECKING:
    from elmo_cli.analysis.surprisal_picture import Measured
    from elmo_cli.language_model.units import UnitKind


@dataclass(frozen=True)
class _Choices:
    direction: Direction = "forward"
    entropy: bool = False
    words_by: str | None = None
    regions: str | None = None
    frequencies: str | None = None
    pairs: tuple[str, ...] | None = None
    group_by: str | None = None
    plot: str | None = None
    overwrite: bool = False
    row_format: str | None = None
    batch_size: int = DEFAULT_BATCH_SIZE

    def print_rows(
        self, opened: OpenText, columns: Sequence[str]
    ) -> AbstractContextManager["RowWriter"]:
        columns, kept = [*opened.columns, *columns], dict(opened.read.example.columns)
        for name in self.pairs or ():
            kept.pop(name, None)
        return print_rows(self.row_format, columns, kept)


@command()
@click.argument("text", metavar="INPUT", type=PATH)
@option_group(
    "Rows",
    choice(
        "--direction",
        DIRECTIONS,
        default="forward",
        help="Predict each token from the tokens before it, after it, or both in turn.",
    ),
    flag(
        "--entropy",
        excludes="--pairs",
        help="Also print the entropy of each prediction.",
    ),
    choice(
        "--words-by",
        ["space", "word"],
        "--by",
        excludes="--pairs",
        help="Print a row for each word between spaces, with the sum of its tokens.",
    ),
    option(
        "--regions COLUMN",
        excludes="--pairs or --text-column or --word-column",
        shell_complete=options.complete_columns,
        help="Print one row per region. In COLUMN, `|` separates the regions of each text.",
    ),
    path_option(
        "--frequencies FILE",
        excludes="--pairs",
        help="Word counts for the log frequencies: one word and its count per line. [default: "
        "estimated from the ranks in the vocabulary]",
    ),
    option(
        "--pairs GOOD,BAD",
        type=options.split_names,
        shell_complete=options.complete_columns,
        help="Compare the two sentences in the columns GOOD and BAD of each row.",
    ),
    option(
        "--group-by COLUMN",
        requires="--pairs",
        shell_complete=options.complete_columns,
        help="Also print the accuracy of --pairs for each value of COLUMN.",
    ),
)
@option_group(
    "Output",
    options.row_options(),
    options.keep_columns_option,
    options.figure_options(
        "the surprisals of the first 50 sentences as bars", excludes="--pairs"
    ),
)
@score_options
def surprisal(
    text: str,
    choices: _Choices,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Print the surprisal of each token of INPUT, a text with one sentence per line.

    By default, white space separates the tokens of a text file, and moses tokenizes tables.
    INPUT may be compressed, a table such as CSV, or - for standard input. The output is a
    table: the id of the record, or its line number from 1; the position of the token, from 0;
    the token; its surprisal and its log frequency in bits; its length in characters; and 1 if
    it is in the vocabulary, else 0. An unknown token gets the surprisal of <UNK>, which
    represents all unknown words, so you should normally exclude it.

    With --words-by or --regions, each row is a word or region, numbered from 1, with the sums
    of its tokens. Use --word-column for a table with one word per row. --entropy adds the
    expected surprisal at each position, in bits. With --pairs, each row is a pair of sentences
    with their surprisals, and 1 if the good one is more probable. The default tokenizer of
    words, regions and pairs is moses.

    \b
    $ elmo surprisal stimuli.csv --format csv > surprisal.csv
    $ elmo surprisal stimuli.csv --words-by space --keep-columns all --plot words.html
    $ elmo surprisal story.csv --word-column word --id-column story --split-sentences
    $ elmo surprisal pairs.csv --pairs good,bad --group-by phenomenon
    $ echo "The keys to the cabinet are on the table ." | elmo surprisal - --entropy
    """
    source = Source(text)
    source.check()  # Loading the model can take a while.
    if choices.plot is not None:
        from elmo_cli.analysis.drawing import check_figure

        check_figure(choices.plot, overwrite=choices.overwrite)
    if text_settings.word_column is not None:
        choices = replace(choices, words_by="space")
    input_format = find_format(source, text_settings.input_format)
    name = "--pairs" if choices.pairs else "--regions" if choices.regions else None
    if name and not input_format.has_columns:
        raise click.UsageError(f"{name} requires a table, found {input_format.name}")
    text_settings = replace(text_settings, splits_words=bool(choices.words_by))
    if choices.regions:
        text_settings = replace(
            text_settings, text_column=choices.regions, text_option="--regions"
        )
    default = "moses" if text_settings.splits_words else "whitespace"
    opened = loading.open_text(source, text_settings, model_settings, default)
    print_rows_of = _print_pairs if choices.pairs else _print_units
    print_rows_of(opened, choices, model_settings)


def _print_units(
    text: TextInput, choices: _Choices, model_settings: ModelSettings
) -> None:
    from elmo_cli.analysis.surprisal_picture import MAX_SENTENCES, plot_surprisals
    from elmo_cli.language_model.frequency_file import read_frequencies
    from elmo_cli.language_model.surprisal_table import SurprisalTable
    from elmo_cli.language_model.units import ignore_marks

    if choices.regions:
        text = replace(text, tokenizer=ignore_marks(text.tokenizer))
    counts = (
        None if choices.frequencies is None else read_frequencies(choices.frequencies)
    )
    kind: UnitKind = (
        "word" if choices.words_by else "region" if choices.regions else "token"
    )
    with_regions = bool(choices.words_by and choices.regions)
    table = SurprisalTable(
        kind, choices.direction, choices.entropy, counts, with_regions
    )
    model = loading.load_language_model(model_settings)
    drawn: list[Measured] = []
    n_tokens = n_unknown = n_rows = n_without = 0
    with (
        open_text(text, model) as opened,
        choices.print_rows(opened, table.columns) as rows,
    ):
        records, is_ready = opened.read.records, opened.read.is_ready
        for scored in table.measure(model, records, choices.batch_size, is_ready):
            record = scored.record
            if not record.word_columns:
                rows.write(map(table.row, scored.result), record.columns, scored.names)
            for unit, columns in zip(scored.result, record.word_columns, strict=False):
                rows.write([table.row(unit)], columns, scored.names)
            if choices.plot and scored.result and len(drawn) < MAX_SENTENCES:
                drawn.append(scored)
            n_tokens += len(record.tokens)
            opened.show_rate(n_tokens)
            n_unknown += sum(unit.n_unknown for unit in scored.result)
            n_rows += len(scored.result)
            n_without += sum(unit.log_frequency is None for unit in scored.result)
    messages.say(f"{counted(n_tokens, 'token')}, {n_unknown:,} of them unknown")
    if counts is not None and 2 * n_without > n_rows:
        messages.say(
            f"Warning: {n_without:,} of {counted(n_rows, 'row')} have no log frequency, because "
            f"{choices.frequencies} does not contain their words. Name its columns word and count."
        )
    if choices.plot is not None:
        overwrite = choices.overwrite
        n_drawn = plot_surprisals(
            drawn, choices.plot, choices.direction, overwrite=overwrite
        )
        messages.say(f"Wrote {choices.plot}: {counted(n_drawn, 'sentence')}")


def _print_pairs(
    text: TextInput, choices: _Choices, model_settings: ModelSettings
) -> None:
    from elmo_cli.language_model.pairs import Accuracy, PairTable, pair_columns

    table = PairTable(choices.pairs or (), text.settings, choices.group_by)
    model = loading.load_language_model(model_settings)
    direction, n = choices.direction, choices.batch_size
    accuracy = Accuracy(direction, choices.group_by)
    with (
        open_text(replace(text, settings=table.reading), model) as opened,
        choices.print_rows(opened, pair_columns(direction)) as rows,
    ):
        records, is_ready = opened.read.records, opened.read.is_ready
        measured = table.measure(
            model, records, text.tokenizer, n, is_ready, direction=direction
        )
        for scored in measured:
            rows.write([scored.result.row], scored.record.columns, scored.names)
            accuracy.add(scored)
    for line in accuracy.lines():
        messages.say(line)
    unknown = f"{accuracy.n_unknown:,} of them with unknown words"
    messages.say(f"{counted(accuracy.n_pairs, 'pair')}, {unknown}")
