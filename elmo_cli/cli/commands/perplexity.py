"""`elmo perplexity`: how well a model predicts a text."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options, scores
from elmo_cli.cli.answers import as_json_line, as_row, print_rows
from elmo_cli.quantities import counted

if TYPE_CHECKING:
    from elmo_cli.language_model.perplexity import Perplexity
    from elmo_cli.language_model.scoring import SentenceScore

_SENTENCE_COLUMNS = (
    *("sentence", "tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
_TOKEN_COLUMNS = ("sentence", "position", "token", "known", "log_p_forward", "log_p_backward")


@options.command()
@click.argument("text", metavar="FILE", type=options.PATH)
@options.flag("--per-sentence", excludes="--per-token", help="Print a line a sentence, as TSV.")
@options.flag("--per-token", help="Print a line a token, as TSV.")
@options.json_option("an object, or one a line")
@options.scoring_options
def perplexity(
    text: str, per_sentence: bool, per_token: bool, as_json: bool, batch_size: int, **named: Any
) -> None:
    """Measure how well a model predicts FILE: text, a sentence a line.

    Tokens are what white space separates, unless --tokenizer names another way.

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
    scores.check_file(text)
    tokenizer = loading.take_tokenizer(named)

    model = loading.load_language_model(**named)

    from elmo_cli.language_model.perplexity import perplexity_of_scores

    has_rows = per_sentence or per_token
    columns, rows_of = (
        (_TOKEN_COLUMNS, _token_rows) if per_token else (_SENTENCE_COLUMNS, _sentence_rows)
    )
    if has_rows and not as_json:
        click.echo(as_row(columns))
    score = partial(model.score, batch_size=batch_size)

    def shown() -> "Iterator[SentenceScore]":
        found = scores.score_file(text, tokenizer, score, as_stream=has_rows)
        for number, each in enumerate(found):
            if has_rows:
                print_rows(columns, rows_of(number, each), as_json=as_json)
            yield each

    result = perplexity_of_scores(shown())
    if has_rows:
        average = result.all_words.average
        messages.say(
            f"{counted(result.tokens, 'token')}, perplexity {average:,.2f} (average of directions)"
        )
    else:
        click.echo(as_json_line(asdict(result)) if as_json else _table(result))


def _sentence_rows(number: int, score: "SentenceScore") -> Iterator[Sequence[Any]]:
    from elmo_cli.language_model.perplexity import perplexity_of_scores

    n_unknown = int((~score.known).sum())
    log_p = float(score.forward.sum()), float(score.backward.sum())
    of_sentence = astuple(perplexity_of_scores([score]).all_words) if score.tokens else [None] * 3
    yield number, len(score.tokens), n_unknown, *log_p, *of_sentence


def _token_rows(number: int, score: "SentenceScore") -> Iterator[Sequence[Any]]:
    from elmo_cli.model.characters import END_TOKEN, START_TOKEN

    if not score.tokens:
        return
    tokens = [START_TOKEN, *score.tokens, END_TOKEN]
    known = [True, *score.known.tolist(), True]
    forward = [None, *score.forward.tolist()]
    backward = [*score.backward.tolist(), None]
    for position, values in enumerate(zip(tokens, known, forward, backward, strict=True)):
        yield number, position, *values


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
