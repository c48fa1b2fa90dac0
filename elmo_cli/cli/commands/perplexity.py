"""`elmo perplexity`."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import open_command_text
from elmo_cli.cli.load_model import load_resolved_language_model
from elmo_cli.cli.parameter_types import TEXT_OR_PATH
from elmo_cli.cli.row_printer import open_row_printer
from elmo_cli.cli.scored_text import (
    check_options_of_typed_text,
    is_typed_text,
    open_scored_text,
    score_options,
    source_of,
)
from elmo_cli.cli.shared_options import flag
from elmo_cli.errors.wording import counted
from elmo_cli.files.json_form import json_text
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings

if TYPE_CHECKING:
    from elmo_cli.language_model.perplexity import Perplexity


@command()
@click.argument("text", metavar="INPUT", type=TEXT_OR_PATH)
@option_group(
    "Output",
    flag("--per-sentence", help="Print a table with one row per sentence."),
    shared_options.row_options(
        "plain text, or tsv with --per-sentence",
        help="Format: tsv or csv with a header, for --per-sentence, or jsonl (JSON "
        "lines).",
        requires=["--per-sentence", ("--format", "jsonl")],
    ),
    shared_options.keep_columns_option(
        help="Columns of INPUT to copy to the rows of --per-sentence; all copies all "
        "but text and ids.",
        requires=["--per-sentence"],
    ),
)
@score_options()
def perplexity(
    text: str,
    per_sentence: bool,
    row_format: str | None,
    batch_size: int,
    **values: Any,
) -> None:
    """Measure the perplexity of INPUT, one sentence per line.

    \b
    $ elmo perplexity test.txt
    $ elmo perplexity "The keys to the cabinet are on the table."
    $ elmo perplexity test.txt --per-sentence --format csv > scores.csv

    INPUT is a text file, a table such as CSV, or - for standard input. If there is no
    such file, an INPUT with a space is the text itself. Texts may be raw or tokenized.
    Blank lines do not count; with --per-sentence, each has a row.

    A lower perplexity means that the model expected the text more. The forward
    direction predicts each token and the end of the sentence, and the backward
    direction each token and the start of the sentence. The average is over the log
    probabilities of both.

    Words outside the vocabulary count as <UNK>. The column "known words" leaves them
    out. Its values can be higher, because <UNK> is often easy to predict. Compare
    models only if they have the same vocabulary.

    With --per-sentence, you get a table with one row per sentence: its log
    probabilities (natural logarithms) and perplexities. The perplexity of all of them
    together is printed on standard error. For one row per token, use `elmo surprisal`.
    """
    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    source = source_of(text)
    source.check()  # Loading the model can take a while.
    if is_typed_text(text):
        check_options_of_typed_text()
    text_settings.check_whole_records()

    from elmo_cli.pretrained.find_model import resolve_model

    resolved = resolve_model(model_settings)
    opened_text = open_command_text(
        source, text_settings, resolved, lines_are_texts=source.path is None
    )
    model = load_resolved_language_model(resolved)

    from elmo_cli.language_model.perplexity import SENTENCE_COLUMNS, run_perplexity

    with open_scored_text(
        opened_text, model, reads_ids=per_sentence, may_lack_rows=per_sentence
    ) as opened:
        columns = [*opened.columns, *SENTENCE_COLUMNS]
        printer = open_row_printer(row_format, columns, opened.records.example.columns)
        with printer if per_sentence else nullcontext() as rows:
            result = run_perplexity(
                model,
                opened.records,
                name=source.name,
                write=None if rows is None else rows.write,
                batch_size=batch_size,
                on_tokens=opened.show_rate,
            )
    if result is None:
        return  # The table has no rows.
    if per_sentence:
        mean = f"{result.all_words.forward:,.2f} (forward)"
        if result.all_words.average is not None:
            mean = f"{result.all_words.average:,.2f} (average of directions)"
        stderr.say(f"{counted(result.tokens, 'token')}, perplexity {mean}")
    elif row_format == "jsonl":
        click.echo(json_text(asdict(result)))
    else:
        click.echo(_perplexity_table(result))


def _perplexity_table(text_perplexity: "Perplexity") -> str:
    directions = "in each direction"
    if text_perplexity.all_words.backward is None:
        directions = "of the forward direction"
    lines = [
        f"sentences    {text_perplexity.sentences:>12,}",
        f"tokens       {text_perplexity.tokens:>12,}",
        f"predictions  {text_perplexity.predictions:>12,}  {directions}",
        f"unknown      {text_perplexity.unknown:>12.2%}  of the tokens",
        "",
        f"perplexity   {'all words':>12}  {'known words':>12}",
    ]
    known_words = asdict(text_perplexity.known_words)
    for name, value in asdict(text_perplexity.all_words).items():
        if value is not None:
            lines.append(f"{name:<11}  {value:>12,.2f}  {known_words[name]:>12,.2f}")
    return "\n".join(lines)
