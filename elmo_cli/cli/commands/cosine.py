"""`elmo cosine`: how alike a word's vectors are in two sentences."""

from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, options
from elmo_cli.cli.answers import as_json_line, as_row, read_queries

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence, Similarity


@options.command()
@click.argument("word")
@click.argument("sentence1")
@click.argument("sentence2", required=False)
@options.option("--word2", metavar="WORD", help="Word in SENTENCE2, if it differs from WORD.")
@options.count("--occurrence1", help="Number of the occurrence in SENTENCE1, from 1.")
@options.count("--occurrence2", help="Number of the occurrence in SENTENCE2, from 1.")
@options.tokenizer_options("moses")
@options.option(
    "--layer",
    metavar="N|average",
    shell_complete=options.complete_values("average"),
    excludes="--json",
    help="Print only the cosine of this layer, or of the average of all layers.",
)
@options.json_option("an object a pair")
@options.run_options
def cosine(
    sentence1: str, sentence2: str | None, layer: str | None, as_json: bool, **named: Any
) -> None:
    """Compare the vectors of WORD in SENTENCE1 and in SENTENCE2.

    Prints the cosine similarity for each layer (0 is the token layer, which does not depend
    on the sentence) and for the average of all layers. With - in place of the sentences,
    reads pairs from standard input, two sentences a line separated by a tab, and answers
    each with a line: the cosine of each layer and of the average, separated by tabs.

    \b
    $ elmo cosine bank "I sat by the bank." "The bank lent us money."
    $ elmo cosine bank - --layer 2 < pairs.tsv
    """
    if (sentence1 == "-") == (sentence2 is not None):
        raise click.UsageError("expected two sentences, or - for pairs from standard input")

    from elmo_cli.analysis.cosine import find_pair, similarities

    words = {name: named.pop(name) for name in ("word", "word2", "occurrence1", "occurrence2")}
    cut = loading.take_tokenizer(named).cut
    # A wrong word of the command line is found before a model is loaded.
    pair = None if sentence2 is None else find_pair([sentence1, sentence2], cut, **words)
    embedder = loading.load_embedder(**named)
    layers = [*map(str, range(embedder.options.n_layers)), "average"]
    if layer not in (None, *layers):
        expected = f"expected a number from 0 to {layers[-2]}, or average"
        raise click.UsageError(f"--layer {layer!r}: {expected}")
    pairs = read_queries(lambda line: find_pair(line.split("\t"), cut, **words))
    for chunk in pairs if pair is None else [[pair]]:
        for found in similarities(embedder, chunk):
            click.echo(_shown(found, layer, as_json, as_table=pair is not None))


def _shown(found: "Similarity", layer: str | None, as_json: bool, *, as_table: bool) -> str:
    """An answer as it is printed."""
    if as_json:
        pair = {"first": _place(found.first), "second": _place(found.second)}
        return as_json_line({**pair, "layers": found.layers, "average": found.average})
    if layer is not None:
        return as_row([found.average if layer == "average" else found.layers[int(layer)]])
    if not as_table:
        return as_row([*found.layers, found.average])
    lines = [found.first.marked, found.second.marked, ""]
    lines += [f"layer {k}  {value:8.4f}" for k, value in enumerate(found.layers)]
    return "\n".join([*lines, f"average  {found.average:8.4f}"])


def _place(occurrence: "Occurrence") -> dict[str, Any]:
    return {"tokens": occurrence.sentence, "word": occurrence.token, "index": occurrence.index}
