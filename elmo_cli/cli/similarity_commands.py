"""`elmo cosine` and `elmo neighbours`: similarity of the vectors of occurrences of words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import (
    RowWriter,
    cell,
    print_rows,
    read_pair_table,
    read_queries,
    read_query_table,
)
from elmo_cli.cli.command import command, option_group, typed_options
from elmo_cli.errors import InputError, ModelError, counted
from elmo_cli.json_form import json_text
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbours import Neighbour, Neighbours, Similarity
    from elmo_cli.analysis.occurrences import Occurrence, Pair, VectorFiles
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
    help="Table of pairs in place of the arguments, with the columns word (or word1 and word2), "
    "sentence1 and sentence2. Optional columns: occurrence1 and occurrence2, or start1, end1, "
    "start2 and end2, the characters of the word from 0. Prints all columns and the cosines.",
)
@options.input_format_options(
    "TABLE", "sentences, NAME1,NAME2", "sentence1,sentence2", requires="--pairs"
)
@options.tokenizer_options("moses")
@options.option(
    "--layer N|average",
    shell_complete=options.complete_values("average"),
    excludes="--json",
    help="Print only the cosine of this layer, or of the average of all layers.",
)
@options.format_option(requires="--pairs")
@options.json_option("one object per pair")
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
    as_json: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Compare the vectors of WORD in SENTENCE1 and in SENTENCE2.

    Prints the cosine similarity for each layer (0 is the token layer, which does not depend
    on the sentence) and for the average of all layers. With - in place of the sentences,
    reads pairs from standard input, two sentences per line separated by a tab, and prints
    one line per pair: the cosine of each layer and of the average, separated by tabs.
    --pairs reads a table such as WiC's, and prints a table.

    \b
    $ elmo cosine bank "I sat by the bank." "The bank lent us money."
    $ elmo cosine bank - --layer 2 < pairs.tsv
    $ elmo cosine --pairs wic.csv --layer 2 --format csv > cosines.csv
    """
    is_one = arguments[1:2] != (STANDARD_INPUT,)
    if len(arguments) != (2 + is_one if pairs is None else 0):
        raise click.UsageError("expected WORD SENTENCE1 SENTENCE2, or WORD -, or --pairs TABLE")

    from elmo_cli.analysis.neighbours import similarities
    from elmo_cli.analysis.occurrences import find_occurrence

    tokenizer = loading.load_tokenizer(text_settings, model_settings)

    def find(sentences: Sequence[str]) -> "Pair":
        if len(sentences) != 2:
            raise InputError(f"expected two sentences separated by a tab, found {len(sentences)}")
        (first, second), word = map(tokenizer.tokenize, sentences), arguments[0]
        return (
            find_occurrence(first, word, occurrence1, option="--occurrence1"),
            find_occurrence(second, word2 or word, occurrence2, option="--occurrence2"),
        )

    # Find a wrong word on the command line before loading the model.
    pair = find(arguments[1:]) if pairs is None and is_one else None
    embedder = loading.load_embedder(model_settings)
    layers = [*map(str, range(embedder.options.n_layers)), "average"]
    if layer not in (None, *layers):
        expected = f"expected a number from 0 to {layers[-2]}, or average"
        raise click.UsageError(f"--layer {layer!r}: {expected}")
    if pairs is not None:
        names = ["cosine"] if layer else [f"cosine_{name}" for name in layers]
        with print_rows(row_format, ["line", *names], as_json=as_json) as rows:
            chunks = read_pair_table(pairs, text_settings, tokenizer)
            _write_pairs(embedder, chunks, layer, rows)
        return
    lines = read_queries(lambda line: find(line.split("\t")))
    for chunk in lines if pair is None else [[pair]]:
        for similarity in similarities(embedder, chunk):
            click.echo(_shown(similarity, layer, as_json, as_table=pair is not None))


def _write_pairs(
    embedder: "ElmoEmbedder", chunks: "Iterable[list[PairRow]]", layer: str | None, rows: RowWriter
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
            rows.write([[number, *(_cosines(next(found), layer) if is_found else empty)]], columns)
    if errors:
        n_rows = counted(len(errors), "row")
        messages.say(f"Warning: {n_rows} without cosines. The first is {errors[0]}")


def _cosines(similarity: "Similarity", layer: str | None) -> list[float]:
    """Return the cosine of a layer, or of each layer and of the average."""
    cosines = [*similarity.layers, similarity.average]
    if layer is None:
        return cosines
    return [cosines[-1 if layer == "average" else int(layer)]]


def _shown(similarity: "Similarity", layer: str | None, as_json: bool, *, as_table: bool) -> str:
    """Return the cosines of a pair as text: JSON, one cosine, a row, or a table for people."""
    if as_json:
        pair = {"first": _occurrence(similarity.first), "second": _occurrence(similarity.second)}
        return json_text({**pair, "layers": similarity.layers, "average": similarity.average})
    if layer is not None or not as_table:
        return "\t".join(map(cell, _cosines(similarity, layer)))
    lines = [similarity.first.marked, similarity.second.marked, ""]
    lines += [f"layer {k}  {value:8.4f}" for k, value in enumerate(similarity.layers)]
    return "\n".join([*lines, f"average  {similarity.average:8.4f}"])


def _occurrence(occurrence: "Occurrence") -> dict[str, Any]:
    return {"tokens": occurrence.sentence, "word": occurrence.token, "index": occurrence.index}


@command()
@click.argument(
    "arguments", metavar="WORD SENTENCE FILE...", type=options.PATH, nargs=-1, required=True
)
@options.count("--top", default=10, help="Number of neighbours.")
@options.flag(
    "--other-words", excludes="--sentence", help="Exclude other occurrences of WORD itself."
)
@options.count(
    "--occurrence",
    excludes="--sentence",
    help="Number of the occurrence of WORD in SENTENCE, from 1.",
)
@options.option(
    "--sentence TEXT",
    help="Find the sentences nearest to TEXT, in FILEs of --pooling, in place of a word.",
)
@options.path_option(
    "--queries TABLE",
    excludes="--sentence or --occurrence",
    help="Table of queries in place of WORD and SENTENCE, with the columns word and text, and "
    "optionally occurrence (from 1); with only text, if FILE has one vector per sentence.",
)
@options.input_format_options("TABLE", requires="--queries")
@options.cell_options(requires="--queries")
@options.mean_layers_option()
@options.tokenizer_options("moses")
@options.format_option()
@options.json_option("one object per query")
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
    as_json: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Find the occurrences in FILEs nearest to WORD in SENTENCE.

    FILE is what `elmo embed` wrote to HDF5 or `elmo usages` in any format, a folder of `elmo
    distribute`, or a pattern of such names. Several files are searched as one. SENTENCE is
    tokenized as FILE was, and embedded by its model. Files of npz and JSON lines do not name
    their model and layers: use --model and --mean-layers. Prints the cosine of each occurrence, its
    line number or id, and its sentence with the word marked. SENTENCE itself is excluded.

    With - in place of WORD and SENTENCE, reads one query per line from standard input: a word, a
    tab and a sentence. Prints a table then, as with --format. Its columns are query_number, rank,
    cosine, file, line, id, position, token and sentence. Positions count from 0, all other numbers
    from 1. To judge a cosine, compare it with the average for two random tokens, which is printed
    on standard error.

    \b
    $ elmo embed corpus.txt corpus.hdf5 --layout packed --layers 1,2 --dtype float16
    $ elmo neighbours bank "We sat on the bank of the river." corpus.hdf5 --top 5
    $ elmo neighbours - corpus.hdf5 --json < queries.tsv
    $ elmo neighbours --queries queries.csv corpus.hdf5 --json
    $ elmo neighbours --sentence "How do I open an account?" pooled.hdf5
    """
    is_option = sentence is not None or queries is not None
    n_before = 0 if is_option else 1 if arguments[0] == STANDARD_INPUT else 2
    paths = arguments[n_before:]
    if not paths:
        others = "- FILE..., --sentence TEXT FILE... or --queries TABLE FILE..."
        raise click.UsageError(f"expected WORD SENTENCE FILE..., {others}")

    from elmo_cli.analysis.neighbours import neighbour_columns, neighbour_rows, word_neighbours
    from elmo_cli.analysis.occurrences import open_occurrences

    with open_occurrences(*paths) as files:
        pooled = sentence is not None or (queries is not None and "pooling" in files.attributes)
        files.check_pooling(pooled=pooled)
        if files.has_token_layer(layers):
            messages.say("Warning: these vectors contain layer 0, which finds similar spelling.")
        model_settings = _model_of(files, model_settings)
        tokenizer = _make_tokenizer(files, text_settings, model_settings)
        if queries is None:
            chunks = _read_queries(arguments, sentence, occurrence, tokenizer)
        else:
            chunks = read_query_table(queries, text_settings, tokenizer, pooled=pooled)
        embedder = _load_embedder(files, model_settings)
        settings: dict[str, Any] = {"top": top, "layers": layers, "other_words": other_words}
        find = partial(word_neighbours, embedder, files, **settings)
        is_one = n_before == 2 or sentence is not None
        as_rows = row_format is not None or not (is_one or as_json)
        columns = neighbour_columns(pooled=pooled)
        with print_rows(row_format, columns) if as_rows else nullcontext() as rows:
            results = enumerate(_search(files, chunks, find), start=1)
            for number, (query, nearest, mean) in results:
                if rows is not None:
                    rows.write(neighbour_rows(number, nearest, pooled=pooled))
                elif as_json:
                    click.echo(_json_line(files, query, nearest, mean))
                else:
                    _print(files, nearest)


def _search(
    files: "VectorFiles", chunks: "Iterable[list[Occurrence]]", find: "Callable[..., Neighbours]"
) -> "Iterator[tuple[Occurrence, list[Neighbour], float | None]]":
    """Yield each query with its neighbours and the mean cosine of the files, and print the mean."""
    for number, chunk in enumerate(chunks):
        with messages.progress_bar(" records", leave=False) as bar:
            files.on_progress = bar.update
            found = find(chunk)
        if number == 0 and found.mean_cosine is not None:
            pair = "sentences" if "pooling" in files.attributes else "tokens"
            messages.say(f"Cosine of two random {pair}: {found.mean_cosine:.3f} on average")
        for query, nearest in zip(chunk, found.nearest, strict=True):
            yield query, nearest, found.mean_cosine


def _read_queries(
    arguments: tuple[str, ...], sentence: str | None, occurrence: int | None, tokenizer: "Tokenizer"
) -> "Iterable[list[Occurrence]]":
    """Return the query, or the queries of standard input in lists of lines that are ready."""
    from elmo_cli.analysis.occurrences import Occurrence, find_occurrence

    def find(word: str, text: str) -> Occurrence:
        return find_occurrence(tokenizer.tokenize(text), word, occurrence, option="--occurrence")

    def find_in_line(line: str) -> Occurrence:
        word, tab, text = line.partition("\t")
        if not tab:
            raise InputError("expected a word and a sentence separated by a tab, found no tab")
        return find(word.strip(), text)

    if sentence is None:
        from_input = arguments[0] == STANDARD_INPUT
        return read_queries(find_in_line) if from_input else [[find(*arguments[:2])]]
    if not (tokens := tokenizer.tokenize(sentence)):
        raise click.UsageError("--sentence: expected a sentence, found an empty text")
    return [[Occurrence(tokens, 0)]]


def _model_of(files: "VectorFiles", settings: ModelSettings) -> ModelSettings:
    """Return the settings of the model that made files, unless the options name another."""
    recorded = ModelSettings.from_attributes(files.attributes)
    if not files.attributes and all(source.has_targets for source in files.sources):
        recorded = ModelSettings()  # Only AllenNLP's files without attributes carry the state.
    if settings.model is not None or settings.options_file is not None:
        return replace(settings, state=recorded.state)
    if recorded.model is None:
        raise click.UsageError(f"{files.paths[0]}: unknown model. Name it with --model.")
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
        problem = f"the model of {files.paths[0]}: {str(error).removesuffix('.')}"
        raise ModelError(f"{problem}. Give its new path with --model.") from None


def _print(files: "VectorFiles", nearest: "list[Neighbour]") -> None:
    for neighbour in nearest:
        path, name = neighbour.location.path, neighbour.location.name
        name = f"{path}:{name}" if len(files.paths) > 1 else name
        text = " ".join(neighbour.sentence) if "pooling" in files.attributes else neighbour.marked
        click.echo(f"{neighbour.cosine:6.3f}  {name:>5}  {text}")


def _json_line(
    files: "VectorFiles", query: "Occurrence", nearest: "list[Neighbour]", mean: float | None
) -> str:
    """Return the neighbours of a query as JSON. A pooled sentence has no word."""
    is_pooled, hits = "pooling" in files.attributes, []

    def show(occurrence: "Occurrence") -> dict[str, Any]:
        return {"tokens": occurrence.sentence} if is_pooled else _occurrence(occurrence)

    for neighbour in nearest:
        path, number, record_id = neighbour.location
        name = {"line": number} if record_id is None else {"id": record_id}
        hits.append({"cosine": neighbour.cosine, "file": str(path), **name, **show(neighbour)})
    return json_text({"query": show(query), "mean_cosine": mean, "neighbours": hits})
