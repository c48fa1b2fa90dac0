"""`elmo cosine`."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import answers, loading, messages, options
from elmo_cli.cli.command import command, typed_options
from elmo_cli.errors.exceptions import InputError, ModelError
from elmo_cli.errors.wording import counted
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbours import Neighbour
    from elmo_cli.analysis.similarity import Similarity
    from elmo_cli.analysis.vector_files import VectorFiles
    from elmo_cli.cli.answers import PairRow
    from elmo_cli.embedder import ElmoEmbedder


@command()
@click.argument("arguments", metavar="WORD SENTENCE1 SENTENCE2", nargs=-1)
@options.option("--word2 WORD", help="Word in SENTENCE2, if it differs from WORD.")
@options.count("--occurrence1", help="Number of the occurrence in SENTENCE1, from 1.")
@options.count("--occurrence2", help="Number of the occurrence in SENTENCE2, from 1.")
@options.path_option(
    "--pairs TABLE",
    excludes="--word2 or --occurrence1 or --occurrence2",
    help="Table of pairs with the columns word (or word1 and word2), sentence1 and sentence2. "
    "To choose a word that occurs again, add occurrence1 and occurrence2, or its characters, from "
    "0: start1, end1, start2 and end2.",
)
@options.input_format_options(
    "sentences, NAME1,NAME2", "sentence1,sentence2", requires="--pairs"
)
@options.tokenizer_options("moses")
@options.option(
    "--layer N|average",
    aliases=("--layers",),
    shell_complete=options.complete_values("average", "0", "1", "2"),
    help="Print only the cosine of this layer, or of the average of all layers.",
)
@options.row_options()
@options.model_options
@options.speed_options
def cosine(
    arguments: tuple[str, ...],
    word2: str | None,
    occurrence1: int | None,
    occurrence2: int | None,
    pairs: str | None,
    layer: str | None,
    row_format: str | None,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Compare the vectors of WORD in SENTENCE1 and in SENTENCE2.

    Prints the cosine similarity for each layer and for the average of all layers. Layer 0
    does not depend on the sentence. To compare a word in many pairs of sentences, give -
    instead of the sentences, and two sentences separated by a tab per line of standard input.
    Each line of the output is then the cosines, separated by tabs. To compare many words, use
    --pairs with a table such as WiC, whose columns the output repeats.

    \b
    $ elmo cosine bank "I sat by the bank." "The bank lent us money."
    $ elmo cosine bank - --layer 2 < pairs.tsv
    $ elmo cosine --pairs wic.csv --layer 2 --format csv > cosines.csv
    """
    is_one = arguments[1:2] != (STANDARD_INPUT,)
    if len(arguments) != (2 + is_one if pairs is None else 0):
        raise click.UsageError(
            'give WORD "SENTENCE1" "SENTENCE2", WORD - or --pairs TABLE'
        )

    from elmo_cli.analysis.occurrences import Occurrence, occurrence_of

    tokenizer = loading.load_tokenizer(text_settings, model_settings)

    def find(sentences: Sequence[str]) -> "PairRow":
        if len(sentences) != 2:
            raise InputError(
                f"expected two sentences separated by a tab, found {len(sentences)}"
            )
        numbers = (occurrence1, occurrence2)
        columns, pair = dict[str, object](), list[Occurrence]()
        for side, word, text, number in zip(
            "12", words, sentences, numbers, strict=True
        ):
            name = f"occurrence{side}"
            found = occurrence_of(
                word, loading.typed_tokens(tokenizer, text), number, f"--{name}"
            )
            columns |= {f"word{side}": word, name: number or 1, f"sentence{side}": text}
            pair.append(found)
        return columns, (pair[0], pair[1])

    # Find a wrong word on the command line before loading the model.
    words = (arguments[0], word2 or arguments[0]) if pairs is None else ()
    pair = find(arguments[1:]) if pairs is None and is_one else None
    embedder = loading.load_embedder(model_settings)
    layers = [*map(str, range(embedder.options.n_layers)), "average"]
    if layer not in (None, *layers):
        expected = f"expected a number from 0 to {layers[-2]}, or average"
        raise click.UsageError(f"--layer {layer!r}: {expected}")
    if pairs is not None:
        chunks = answers.read_pair_table(pairs, text_settings, tokenizer)
    elif pair is not None:
        chunks = iter([[pair]])
    else:
        chunks = answers.read_queries(lambda line: find(line.split("\t")))
    if pairs is None and row_format is None:
        _print_cosines(embedder, chunks, layer, table=pair is not None)
        return
    names = ["cosine"] if layer else [f"cosine_{name}" for name in layers]
    with answers.print_rows(row_format, ["line", *names]) as rows:
        _write_pairs(embedder, chunks, layer, rows)


def _write_pairs(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    layer: str | None,
    rows: answers.RowWriter,
) -> None:
    """Write a row per pair of a table. The cosines are empty where a word was not found."""
    from elmo_cli.analysis.similarity import similarities

    numbers, errors = count(1), list[str]()
    empty = [None] * (1 if layer else embedder.options.n_layers + 1)
    for chunk in chunks:
        pairs = [pair for _, pair in chunk if not isinstance(pair, InputError)]
        found = iter(similarities(embedder, pairs))
        for (columns, pair), number in zip(chunk, numbers, strict=False):
            is_found = not isinstance(pair, InputError)
            errors += [] if is_found else [f"row {number}: {pair}"]
            rows.write(
                [[number, *(_cosines(next(found), layer) if is_found else empty)]],
                columns,
            )
    if errors:
        n_rows = counted(len(errors), "row")
        messages.say(f"Warning: {n_rows} without cosines. The first is {errors[0]}")


def _cosines(similarity: "Similarity", layer: str | None) -> list[float]:
    cosines = [*similarity.layers, similarity.average]
    return (
        cosines
        if layer is None
        else [cosines[-1 if layer == "average" else int(layer)]]
    )


def _print_cosines(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    layer: str | None,
    *,
    table: bool,
) -> None:
    """Print the cosines of each pair: one cosine, a line of them, or a table for people."""
    from elmo_cli.analysis.similarity import similarities

    for chunk in chunks:
        pairs = [pair for _, pair in chunk if not isinstance(pair, InputError)]
        for similarity in similarities(embedder, pairs):
            if layer is not None or not table:
                click.echo("\t".join(map(answers.cell, _cosines(similarity, layer))))
                continue
            lines = [similarity.first.marked, similarity.second.marked, ""]
            lines += [
                f"layer {k}  {value:8.4f}" for k, value in enumerate(similarity.layers)
            ]
            click.echo("\n".join([*lines, f"average  {similarity.average:8.4f}"]))


def load_embedder(files: "VectorFiles", settings: ModelSettings) -> "ElmoEmbedder":
    """Load the model of files; an error says that --model can name another."""
    try:
        return loading.load_embedder(settings)
    except ModelError as error:
        if typed_options("--model", "--options-file"):
            raise
        # --model is the only remedy.
        reason = str(error).partition(". ")[0].removesuffix(".")
        problem = f"the model of {files.paths[0]}: {reason}"
        raise ModelError(f"{problem}. Give its new path with --model.") from None


def print_neighbours(files: "VectorFiles", nearest: "list[Neighbour]") -> None:
    """Print neighbours, one per line."""
    for neighbour in nearest:
        path, name = neighbour.location.path, neighbour.location.name
        name = f"{path}:{name}" if len(files.paths) > 1 else name
        text = (
            " ".join(neighbour.sentence)
            if "pooling" in files.attributes
            else neighbour.marked
        )
        click.echo(f"{neighbour.cosine:6.3f}  {name:>5}  {text}")
