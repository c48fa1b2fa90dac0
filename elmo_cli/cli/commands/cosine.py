"""`elmo cosine`: how alike a word's vectors are in two sentences."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from elmo_cli.cli import loading, options
from elmo_cli.cli.streams import input_chunks
from elmo_cli.errors import InputError

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence, Similarity
    from elmo_cli.text.lines import Sentence

MAX_PAIRS = 64
"""Maximum number of pairs from standard input that are embedded together."""

Pair: TypeAlias = "tuple[Occurrence, Occurrence]"


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
    chosen = {name: named.pop(name) for name in ("word", "word2", "occurrence1", "occurrence2")}
    words = _Words(loading.take_tokenizer(named).cut, **chosen)
    # A wrong word of the command line is found before a model is loaded.
    pair = None if sentence2 is None else words.find(sentence1, sentence2)

    from elmo_cli.analysis.cosine import similarities

    embedder = loading.load_embedder(**named)
    answer = _formatter(
        layer, as_json, embedder.options.n_layers, _table if pair is not None else _row
    )
    if pair is not None:
        click.echo(answer(similarities(embedder, [pair])[0]))
        return
    for chunk in input_chunks(words.find_in_line, MAX_PAIRS):
        for similarity in similarities(embedder, chunk):
            click.echo(answer(similarity))


class _Words(NamedTuple):
    """The words to compare in a pair of sentences."""

    cut: "Callable[[str], Sentence]"
    word: str
    word2: str | None
    occurrence1: int | None
    occurrence2: int | None

    def find(self, sentence1: str, sentence2: str) -> Pair:
        """Find the words in two sentences."""
        from elmo_cli.analysis.cosine import find_occurrence

        first, second = self.cut(sentence1), self.cut(sentence2)
        word2 = self.word2 or self.word
        return (
            find_occurrence(first, self.word, self.occurrence1, option="--occurrence1"),
            find_occurrence(second, word2, self.occurrence2, option="--occurrence2"),
        )

    def find_in_line(self, line: str) -> Pair:
        """Find the words in the two sentences of a line."""
        sentences = line.split("\t")
        if len(sentences) != 2:
            raise InputError(f"expected two sentences with a tab between, found {len(sentences)}")
        return self.find(*sentences)


def _formatter(
    layer: str | None, as_json: bool, n_layers: int, default: "Callable[[Similarity], str]"
) -> "Callable[[Similarity], str]":
    if as_json:
        return _json
    if layer is None:
        return default
    if layer == "average":
        return lambda similarity: f"{similarity.average:.6f}"
    if layer not in map(str, range(n_layers)):
        raise click.UsageError(
            f"--layer {layer!r}: expected a number from 0 to {n_layers - 1}, or average"
        )
    return lambda similarity: f"{similarity.layers[int(layer)]:.6f}"


def _table(similarity: "Similarity") -> str:
    lines = [similarity.first.marked, similarity.second.marked, ""]
    lines += [f"layer {k}  {value:8.4f}" for k, value in enumerate(similarity.layers)]
    return "\n".join([*lines, f"average  {similarity.average:8.4f}"])


def _row(similarity: "Similarity") -> str:
    return "\t".join(f"{value:.6f}" for value in [*similarity.layers, similarity.average])


def _json(similarity: "Similarity") -> str:
    def shown(occurrence: "Occurrence") -> dict[str, Any]:
        return {"tokens": occurrence.sentence, "word": occurrence.token, "index": occurrence.index}

    pair = {"first": shown(similarity.first), "second": shown(similarity.second)}
    cosines = {"layers": similarity.layers, "average": similarity.average}
    return json.dumps({**pair, **cosines}, ensure_ascii=False)
