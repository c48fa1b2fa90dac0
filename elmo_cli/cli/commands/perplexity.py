"""`elmo perplexity`: perplexity of a text under a model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.command import command, option_group, receives
from elmo_cli.cli.rows import open_scored_text, print_rows
from elmo_cli.errors import counted
from elmo_cli.outputs.rows import json_line
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.lines import check_input

if TYPE_CHECKING:
    from elmo_cli.language_model.perplexity import Perplexity
    from elmo_cli.language_model.scored_records import ScoredRecord
    from elmo_cli.language_model.scoring import SentenceScore


@command()
@click.argument("text", metavar="FILE", type=options.PATH)
@option_group(
    "Output",
    options.flag("--per-sentence", excludes="--per-token", help="Print a row per sentence."),
    options.flag("--per-token", help="Print a row per token."),
    options.format_option(requires="--per-sentence or --per-token"),
    options.json_option("an object, or one per row"),
    options.keep_columns_option,
)
@options.score_options
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def perplexity(
    text: str,
    per_sentence: bool,
    per_token: bool,
    row_format: str | None,
    as_json: bool,
    batch_size: int,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Measure the perplexity of FILE: text, one sentence per line.

    White space separates tokens, unless --tokenizer names another tokenizer.

    FILE may be compressed, a table, or - for standard input. The forward direction predicts
    every token and the end of the sentence. The backward direction predicts every token and
    the start of the sentence. Both predict over the whole vocabulary. The average is over both log
    probabilities. Tokens outside the vocabulary count as the word <UNK>. Blank lines are not
    predicted.

    Log probabilities are natural. Rows begin with the id of the record, or with its line
    number from 1. With --per-token, tokens have positions from 0. Only the backward direction
    predicts <S>, at -1. Only the forward direction predicts </S>, after the last token.

    \b
    $ elmo perplexity test.txt
    $ elmo perplexity test.txt --per-sentence --format csv > scores.csv
    $ elmo perplexity test.txt --per-token --json
    """
    check_input(text)  # Loading the model can take a while.
    has_rows = per_sentence or per_token
    if text_settings.keep_columns and not has_rows:
        raise click.UsageError("--keep-columns requires --per-sentence or --per-token")
    tokenizer = loading.load_tokenizer(text_settings, model_settings, text)
    model = loading.load_language_model(model_settings)

    from elmo_cli.language_model import perplexity as rows
    from elmo_cli.language_model.scored_records import score_records

    own_columns = rows.TOKEN_COLUMNS if per_token else rows.SENTENCE_COLUMNS
    rows_of = rows.token_rows if per_token else rows.sentence_rows
    with open_scored_text(text, text_settings, tokenizer, model) as opened:
        score = partial(model.score, batch_size=batch_size, is_ready=opened.is_ready)
        scores = opened.counted(score_records(opened.records, score))
        if has_rows:
            columns = [*opened.columns, *own_columns]
            scores = _print_rows(scores, "json" if as_json else row_format, columns, rows_of)
        result = rows.perplexity_of_scores(score.result for score in scores)
    if has_rows:
        average = result.all_words.average
        messages.say(
            f"{counted(result.tokens, 'token')}, perplexity {average:,.2f} (average of directions)"
        )
    else:
        click.echo(json_line(asdict(result)) if as_json else _table(result))


def _print_rows(
    scores: "Iterator[ScoredRecord[SentenceScore]]",
    row_format: str | None,
    columns: Sequence[str],
    rows_of: "Callable[[SentenceScore], Iterator[Sequence[object]]]",
) -> "Iterator[ScoredRecord[SentenceScore]]":
    """Print the rows of each score, and yield the score."""
    with print_rows(row_format, columns) as rows:
        for score in scores:
            rows.write(([*score.names, *row] for row in rows_of(score.result)), score.kept_columns)
            yield score


def _table(text_perplexity: "Perplexity") -> str:
    lines = [
        f"sentences    {text_perplexity.sentences:>12,}",
        f"tokens       {text_perplexity.tokens:>12,}",
        f"predictions  {text_perplexity.predictions:>12,}  in each direction",
        f"unknown      {text_perplexity.unknown:>12.2%}  of the tokens",
        "",
        f"perplexity   {'all words':>12}  {'known words':>12}",
    ]
    all_words, known_words = asdict(text_perplexity.all_words), asdict(text_perplexity.known_words)
    for name, value in all_words.items():
        lines.append(f"{name:<11}  {value:>12,.2f}  {known_words[name]:>12,.2f}")
    return "\n".join(lines)
