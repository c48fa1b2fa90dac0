"""`elmo perplexity`: how well a model predicts a text."""

import json
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import options
from elmo_cli.quantities import counted

if TYPE_CHECKING:
    from elmo_cli.language_model.perplexity import Directions, Perplexity
    from elmo_cli.language_model.scoring import LanguageModel, SentenceScore

Row = dict[str, Any]

_SENTENCE_COLUMNS = (
    *("sentence", "tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
_TOKEN_COLUMNS = ("sentence", "position", "token", "known", "log_p_forward", "log_p_backward")


@options.command()
@click.argument("text", metavar="FILE")
@options.flag("--per-sentence", excludes="--per-token", help="Print a line a sentence, as TSV.")
@options.flag("--per-token", help="Print a line a token, as TSV.")
@options.json_option("an object, or one a line")
@options.language_model_options
@options.batch_tokens_option
@options.batch_size_option(requires="--state carry")
def perplexity(
    text: str, per_sentence: bool, per_token: bool, as_json: bool, batch_size: int, **named: Any
) -> None:
    """Measure how well a model predicts FILE: tokenized text, a sentence a line.

    FILE may be gzip (.gz), or - for standard input. The forward direction predicts every token
    and the end of the sentence, the backward direction every token and the start of the
    sentence, over the whole vocabulary; the average is that of both log probabilities. Tokens
    outside the vocabulary count as the word <UNK>. Blank lines are not predicted.

    Log probabilities are natural. In --per-token, position 0 is <S>, which only the backward
    direction predicts, and the last one is </S>, which only the forward direction predicts.

    \b
    $ elmo perplexity test.txt
    $ elmo perplexity test.txt --per-sentence > scores.tsv
    $ elmo perplexity test.txt --per-token --json
    """
    _check_file(text)

    model = options.load_language_model(**named)
    has_rows = per_sentence or per_token
    print_rows = _printer(per_sentence, per_token, as_json)
    found = _measure(text, model, batch_size, print_rows, as_stream=has_rows)
    if has_rows:
        average = found.all_words.average
        options.say(
            f"{counted(found.tokens, 'token')}, perplexity {average:,.2f} (average of directions)"
        )
    else:
        click.echo(json.dumps(asdict(found)) if as_json else _table(found))


def _check_file(text: str) -> None:
    """Check that a file can be read, and is not the text itself."""
    from elmo_cli.text.lines import check_input

    if len(text.split()) > 1 and not os.path.exists(text):
        raise click.UsageError(
            f"FILE is a file of text, and there is no {shlex.quote(text)}; "
            f"`echo {shlex.quote(text)} | elmo perplexity -` measures the text itself"
        )
    check_input(text)


def _measure(
    text: str,
    model: "LanguageModel",
    batch_size: int,
    print_rows: "Callable[[int, SentenceScore], None]",
    *,
    as_stream: bool,
) -> "Perplexity":
    """Score a file, sentence by sentence; `as_stream`, each as soon as it is there."""
    from elmo_cli.cli.progress import ProgressBar
    from elmo_cli.language_model.perplexity import Totals
    from elmo_cli.text.lines import open_lines, size_in_bytes, tokens

    totals = Totals()
    with (
        ProgressBar(size_in_bytes(text), quiet=options.is_quiet(), as_lines=False) as bar,
        open_lines(text, bar.add_bytes) as lines,
    ):
        is_ready = lines.is_ready if as_stream else lambda: True
        scores = model.score(map(tokens, lines), batch_size, is_ready)
        for number, score in enumerate(scores):
            totals.add(score)
            print_rows(number, score)
            bar.add_tokens(len(score.tokens))
    return totals.perplexity()


def _printer(
    per_sentence: bool, per_token: bool, as_json: bool
) -> "Callable[[int, SentenceScore], None]":
    """What prints the lines of a sentence: none, one, or one a token."""
    if not (per_sentence or per_token):
        return lambda number, score: None
    rows_of = _token_rows if per_token else _sentence_rows
    if not as_json:
        click.echo("\t".join(_TOKEN_COLUMNS if per_token else _SENTENCE_COLUMNS))
    shown = _json if as_json else _tsv

    def print_rows(number: int, score: "SentenceScore") -> None:
        for row in rows_of(number, score):
            click.echo(shown(row))

    return print_rows


def _sentence_rows(number: int, score: "SentenceScore") -> Iterator[Row]:
    from elmo_cli.language_model.perplexity import perplexity_of

    both: Directions | None = perplexity_of(score)
    values = asdict(both) if both else dict.fromkeys(_SENTENCE_COLUMNS[-3:])
    yield {
        "sentence": number,
        "tokens": len(score.tokens),
        "unknown": int((~score.known).sum()),
        "log_p_forward": float(score.forward.sum()),
        "log_p_backward": float(score.backward.sum()),
        **values,
    }


def _token_rows(number: int, score: "SentenceScore") -> Iterator[Row]:
    from elmo_cli.model.characters import END_TOKEN, START_TOKEN

    if not score.tokens:
        return
    tokens = [START_TOKEN, *score.tokens, END_TOKEN]
    known = [True, *score.known.tolist(), True]
    forward = [None, *score.forward.tolist()]
    backward = [*score.backward.tolist(), None]
    for position, values in enumerate(zip(tokens, known, forward, backward, strict=True)):
        row = dict(zip(_TOKEN_COLUMNS[2:], values, strict=True))
        yield {"sentence": number, "position": position, **row}


def _json(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _tsv(row: Row) -> str:
    """A row of a table; what is not there is left empty."""
    return "\t".join("" if value is None else _cell(name, value) for name, value in row.items())


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}" if name.startswith("log_p") else f"{value:.6g}"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _table(found: "Perplexity") -> str:
    """All of it for people."""
    lines = [
        f"sentences    {found.sentences:>12,}",
        f"tokens       {found.tokens:>12,}",
        f"predictions  {found.predictions:>12,}  in each direction",
        f"unknown      {found.unknown:>12.2%}  of the tokens",
        "",
        f"perplexity   {'all words':>12}  {'known words':>12}",
    ]
    all_words, known_words = asdict(found.all_words), asdict(found.known_words)
    for name, value in all_words.items():
        lines.append(f"{name:<11}  {value:>12,.2f}  {known_words[name]:>12,.2f}")
    return "\n".join(lines)
