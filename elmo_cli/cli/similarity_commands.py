"""`elmo cosine` and `elmo neighbours`: similarity of the vectors of occurrences of words."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import answers, loading, messages, options
from elmo_cli.cli.command import command, option_group, typed_options
from elmo_cli.errors import InputError, ModelError, counted
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbours import Neighbour, Neighbours, Similarity
    from elmo_cli.analysis.occurrences import Occurrence, VectorFiles
    from elmo_cli.cli.answers import PairRow
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.text.tokenizers import Tokenizer


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
    from elmo_cli.analysis.neighbours import similarities

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
    from elmo_cli.analysis.neighbours import similarities

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


@command()
@click.argument(
    "arguments",
    metavar="WORD SENTENCE FILE...",
    type=options.PATH,
    nargs=-1,
    required=True,
)
@options.count("--top", default=10, help="Number of neighbours.")
@options.flag(
    "--other-words", excludes="--sentence", help="Exclude occurrences of WORD itself."
)
@options.count(
    "--occurrence",
    excludes="--sentence",
    help="Number of the occurrence in SENTENCE, from 1.",
)
@options.option(
    "--sentence TEXT",
    help="Find the sentences nearest to TEXT, in files written with --pooling.",
)
@options.path_option(
    "--queries TABLE",
    excludes="--sentence or --occurrence",
    help="Table of queries with the columns word, text and optionally occurrence (from 1). For "
    "files written with --pooling, only text.",
)
@options.input_format_options(requires="--queries")
@options.cell_options(requires="--queries")
@options.mean_layers_option()
@options.tokenizer_options("moses")
@options.row_options()
@options.file_options
@option_group("Speed", options.device_option())
def neighbours(
    arguments: tuple[str, ...],
    top: int,
    other_words: bool,
    occurrence: int | None,
    sentence: str | None,
    queries: str | None,
    layers: str | None,
    row_format: str | None,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Find the occurrences in FILE nearest to WORD in SENTENCE.

    FILE may be HDF5 from `elmo embed`, any file from `elmo usages`, a folder from `elmo
    distribute`, or a pattern such as '*.hdf5'. Several files are searched together. SENTENCE
    is tokenized like FILE and embedded with the same model. For npz and JSON lines, give
    --model and --mean-layers. The command prints the cosine of each occurrence, its line
    number or id, and its sentence with the word marked. SENTENCE itself is excluded. To judge
    a cosine, compare it with the average for two random tokens on standard error.

    To search for many words, use --queries, or give - instead of WORD and SENTENCE, and a
    word, a tab and a sentence per line of standard input. The output is then a table with
    query_number, rank, cosine, file, line, id, position (from 0), token and sentence.

    \b
    $ elmo embed corpus.txt corpus.hdf5 --layout packed --layers 1,2 --dtype float16
    $ elmo neighbours bank "We sat on the bank of the river." corpus.hdf5 --top 5
    $ elmo neighbours - corpus.hdf5 < queries.tsv
    $ elmo neighbours --queries queries.csv corpus.hdf5 --format jsonl
    $ elmo neighbours --sentence "How do I open an account?" pooled.hdf5
    """
    is_option = sentence is not None or queries is not None
    n_before = 0 if is_option else 1 if arguments[0] == STANDARD_INPUT else 2
    paths = arguments[n_before:]
    if not paths:
        others = "- FILE..., --sentence TEXT FILE... or --queries TABLE FILE..."
        raise click.UsageError(f"give WORD SENTENCE FILE..., {others}")
    if (
        n_before == 2
        and paths[1:]
        and paths[0].isalpha()
        and not os.path.exists(paths[0])
    ):
        raise click.UsageError(
            f"{paths[0]}: no such file. Put quotes around the sentence."
        )

    from elmo_cli.analysis.neighbours import (
        neighbour_columns,
        neighbour_rows,
        word_neighbours,
    )
    from elmo_cli.analysis.occurrences import open_occurrences

    with open_occurrences(*paths) as files:
        pooled = sentence is not None or (
            queries is not None and "pooling" in files.attributes
        )
        files.check_pooling(pooled=pooled)
        if files.has_token_layer(layers):
            messages.say(
                "Warning: these vectors contain layer 0, which finds similar spelling."
            )
        model_settings = _model_of(files, model_settings)
        tokenizer = _make_tokenizer(files, text_settings, model_settings)
        if queries is None:
            chunks = _read_queries(arguments, sentence, occurrence, tokenizer)
        else:
            chunks = answers.read_query_table(
                queries, text_settings, tokenizer, pooled=pooled
            )
        embedder = _load_embedder(files, model_settings)
        settings: dict[str, Any] = {
            "top": top,
            "layers": layers,
            "other_words": other_words,
        }
        find = partial(word_neighbours, embedder, files, **settings)
        is_one = n_before == 2 or sentence is not None
        results = _search(files, chunks, find)
        if is_one and row_format is None:
            for nearest in results:
                _print(files, nearest)
            return
        with answers.print_rows(row_format, neighbour_columns(pooled=pooled)) as rows:
            for number, nearest in enumerate(results, start=1):
                rows.write(neighbour_rows(number, nearest, pooled=pooled))


def _search(
    files: "VectorFiles",
    chunks: "Iterable[list[Occurrence]]",
    find: "Callable[..., Neighbours]",
) -> "Iterator[list[Neighbour]]":
    for number, chunk in enumerate(chunks):
        with messages.progress_bar(" records", leave=False) as bar:
            files.on_progress = bar.update
            found = find(chunk)
        if number == 0 and found.mean_cosine is not None:
            pair = "sentences" if "pooling" in files.attributes else "tokens"
            messages.say(
                f"Cosine of two random {pair}: {found.mean_cosine:.3f} on average"
            )
        yield from found.nearest


def _read_queries(
    arguments: tuple[str, ...],
    sentence: str | None,
    occurrence: int | None,
    tokenizer: "Tokenizer",
) -> "Iterable[list[Occurrence]]":
    """Return the query, or the queries of standard input in lists of lines that are ready."""
    from elmo_cli.analysis.occurrences import Occurrence, occurrence_of

    def find(word: str, text: str) -> Occurrence:
        tokens = loading.typed_tokens(tokenizer, text)
        return occurrence_of(word, tokens, occurrence, "--occurrence")

    def find_in_line(line: str) -> Occurrence:
        word, tab, text = line.partition("\t")
        if not tab:
            raise InputError(
                "expected a word and a sentence separated by a tab, found no tab"
            )
        return find(word.strip(), text)

    if sentence is None:
        from_input = arguments[0] == STANDARD_INPUT
        return (
            answers.read_queries(find_in_line)
            if from_input
            else [[find(*arguments[:2])]]
        )
    if not (tokens := loading.typed_tokens(tokenizer, sentence)):
        raise click.UsageError("--sentence must not be empty.")
    return [[Occurrence(tokens, 0)]]


def _model_of(files: "VectorFiles", settings: ModelSettings) -> ModelSettings:
    """Return the settings of the model that made files, unless the options name another."""
    recorded = ModelSettings.from_attributes(files.attributes)
    if not files.attributes and all(source.has_targets for source in files.sources):
        recorded = (
            ModelSettings()
        )  # Only AllenNLP's files without attributes carry the state.
    if settings.model is not None or settings.options_file is not None:
        return replace(settings, state=recorded.state)
    if recorded.model is None:
        raise click.UsageError(
            f"{files.paths[0]}: unknown model. Name it with --model."
        )
    return replace(settings, model=recorded.model, state=recorded.state)


def _make_tokenizer(
    files: "VectorFiles", text_settings: TextSettings, model_settings: ModelSettings
) -> "Tokenizer":
    """Make the tokenizer of the options, or else of the files, or else of their model."""
    from elmo_cli.text.tokenizers import recorded_tokenizer

    recorded = recorded_tokenizer(files.attributes)
    if recorded is None or typed_options("--tokenizer", "--language"):
        return loading.load_tokenizer(text_settings, model_settings)
    return replace(text_settings, tokenizer=recorded).make_tokenizer()


def _load_embedder(files: "VectorFiles", settings: ModelSettings) -> "ElmoEmbedder":
    """Load the model of files; an error says that --model can name another."""
    try:
        return loading.load_embedder(settings)
    except ModelError as error:
        if typed_options("--model", "--options-file"):
            raise
        reason = (
            str(error).partition(". ")[0].removesuffix(".")
        )  # --model is the only remedy.
        problem = f"the model of {files.paths[0]}: {reason}"
        raise ModelError(f"{problem}. Give its new path with --model.") from None


def _print(files: "VectorFiles", nearest: "list[Neighbour]") -> None:
    for neighbour in nearest:
        path, name = neighbour.location.path, neighbour.location.name
        name = f"{path}:{name}" if len(files.paths) > 1 else name
        text = (
            " ".join(neighbour.sentence)
            if "pooling" in files.attributes
            else neighbour.marked
        )
        click.echo(f"{neighbour.cosine:6.3f}  {name:>5}  {text}")
