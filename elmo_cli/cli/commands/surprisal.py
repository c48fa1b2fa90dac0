"""`elmo surprisal`: how unexpected each token of a text is."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options, scores
from elmo_cli.cli.answers import as_row, print_rows
from elmo_cli.quantities import counted

if TYPE_CHECKING:
    from elmo_cli.language_model.surprisal import Surprisals

_COLUMNS = ("sentence_id", "token_id", "token", "surprisal", "known")


@options.command()
@click.argument("text", metavar="FILE", type=options.PATH)
@options.choice(
    "--direction",
    ["forward", "backward"],
    default="forward",
    help="Predict each token from those before it, or from those after it.",
)
@options.flag("--entropy", "with_entropy", help="Print the entropy of each prediction too.")
@options.json_option("an object a line")
@options.scoring_options
def surprisal(
    text: str, direction: str, with_entropy: bool, as_json: bool, batch_size: int, **named: Any
) -> None:
    """Print the surprisal of each token of FILE: text, a sentence a line.

    Tokens are what white space separates, unless --tokenizer names another way. FILE may be
    gzip (.gz), or - for standard input. Prints TSV with a header: the number of the line
    and that of the token in it, both from 1, the token, its surprisal in bits, and whether
    it is a word of the vocabulary (1) or not (0). The surprisal of an unknown token is that of
    <UNK>, of any unknown word, and says little about this one. --entropy adds the entropy over
    the whole vocabulary, in bits: the surprisal that the model expects in this place.

    \b
    $ elmo surprisal stimuli.txt > surprisal.tsv
    $ echo "The keys to the cabinet are on the table ." | elmo surprisal - --entropy
    """
    scores.check_file(text)
    tokenizer = loading.take_tokenizer(named)

    model = loading.load_language_model(**named)

    from elmo_cli.language_model.surprisal import measure_surprisal

    measure = partial(
        measure_surprisal,
        model,
        batch_size=batch_size,
        backward=direction == "backward",
        with_entropy=with_entropy,
    )
    columns = [*_COLUMNS, *["entropy"] * with_entropy]
    if not as_json:
        click.echo(as_row(columns))
    n_tokens = n_unknown = 0
    for number, found in enumerate(scores.score_file(text, tokenizer, measure), start=1):
        print_rows(columns, _rows(number, found), as_json=as_json)
        n_tokens += len(found.tokens)
        n_unknown += int((~found.known).sum())
    messages.say(f"{counted(n_tokens, 'token')}, {n_unknown:,} of them unknown")


def _rows(number: int, found: "Surprisals") -> Iterator[Sequence[Any]]:
    """A row a token."""
    entropy = [] if found.entropy is None else [found.entropy.tolist()]
    values = zip(
        found.tokens, found.surprisal.tolist(), found.known.tolist(), *entropy, strict=True
    )
    for position, of_token in enumerate(values, start=1):
        yield number, position, *of_token
