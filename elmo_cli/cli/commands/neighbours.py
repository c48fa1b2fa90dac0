"""`elmo neighbours`."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import answers, loading, messages, options
from elmo_cli.cli.command import command, option_group, typed_options
from elmo_cli.cli.commands.cosine import load_embedder, print_neighbours
from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbours import Neighbour, Neighbours
    from elmo_cli.analysis.occurrences import Occurrence
    from elmo_cli.analysis.vector_files import VectorFiles
    from elmo_cli.text.tokenizers import Tokenizer


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
    is tokenized like FILE and embedded with the same model. For a table of another program,
    give --model and --mean-layers. The command prints the cosine of each occurrence, its line
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

    from elmo_cli.analysis.neighbours import neighbour_columns, neighbour_rows
    from elmo_cli.analysis.vector_files import open_occurrences
    from elmo_cli.analysis.word_neighbours import word_neighbours

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
        embedder = load_embedder(files, model_settings)
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
                print_neighbours(files, nearest)
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
        # Only AllenNLP's files without attributes carry the state.
        recorded = ModelSettings()
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
    from elmo_cli.options.tokenizer_names import recorded_tokenizer
    from elmo_cli.text.choose_tokenizer import choose_tokenizer

    recorded = recorded_tokenizer(files.attributes)
    if recorded is None or typed_options("--tokenizer", "--language"):
        return loading.load_tokenizer(text_settings, model_settings)
    return choose_tokenizer(replace(text_settings, tokenizer=recorded), "raw")
