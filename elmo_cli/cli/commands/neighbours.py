"""`elmo neighbours`."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import choose_command_tokenizer, open_command_text
from elmo_cli.cli.load_model import load_resolved_embedder
from elmo_cli.cli.option_conditions import options_on_command_line
from elmo_cli.cli.parameter_types import PATH, WholeNumber
from elmo_cli.cli.queries import query_settings, read_query_table
from elmo_cli.cli.row_printer import open_row_printer
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import (
    check_not_empty,
    missing_error,
    misused_error,
    swapped_error,
)
from elmo_cli.errors.exceptions import InputError, ModelError, SettingsError
from elmo_cli.errors.messages import Template, problem_of
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import NeighbourSettings
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.search.neighbours import Neighbour
    from elmo_cli.analysis.search.vector_files import VectorFiles
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.pretrained.find_model import ResolvedModel
    from elmo_cli.text.occurrences import Occurrence
    from elmo_cli.text.tokenizers import Tokenizer


@command("neighbours", "--queries TABLE FILE...", "--sentence TEXT FILE...")
@click.argument(
    "arguments",
    metavar="WORD SENTENCE FILE...",
    type=PATH,
    nargs=-1,
)
@field_option(NeighbourSettings, "top", type=WholeNumber(1))
@field_option(NeighbourSettings, "other_words", excludes=["--sentence"])
@shared_options.count(
    "--occurrence",
    excludes=["--sentence"],
    help="Use the N-th occurrence of WORD in SENTENCE.",
)
@shared_options.command_option(
    "--sentence TEXT",
    help="Find the sentences most similar to TEXT, in files written with --pooling.",
)
@shared_options.path_option(
    "--queries TABLE",
    excludes=["--sentence", "--occurrence"],
    help=(
        "Table of queries with the columns word, text and, optionally, occurrence "
        "(from 1). For files written with --pooling, it only needs the column text."
    ),
)
@shared_options.stored_layers_option()
@shared_options.row_options("plain text, or tsv with --queries")
@shared_options.tokenizer_options(
    default_text="that of FILE, or auto if it was split at spaces",
    language_default="that of FILE, else the model's",
)
@shared_options.input_format_option(
    requires=["--queries"], help="Format of --queries; see `elmo help formats`."
)
@shared_options.text_column_option(
    help="Column of --queries with the text.", requires=["--queries"], hidden=True
)
@shared_options.cell_options(requires=["--queries"])
@shared_options.file_options(
    help=(
        "Needed only if the model was moved, or if another program wrote FILE (then "
        "Parquet also needs --layers)."
    ),
    default_text="the model of FILE",
)
@option_group("Speed", shared_options.device_option())
def neighbours(
    arguments: tuple[str, ...],
    occurrence: int | None,
    sentence: str | None,
    queries: str | None,
    layers: str | None,
    row_format: str | None,
    **values: Any,
) -> None:
    """Find the occurrences in FILE that are most similar to WORD in SENTENCE.

    \b
    $ elmo embed corpus.txt v.hdf5 --layout packed --layers 1,2 --dtype float16
    $ elmo neighbours bank "We sat on the bank of the river." v.hdf5 --top 5
    $ elmo neighbours --queries queries.csv v.hdf5 --format jsonl
    $ elmo neighbours --sentence "How do I open an account?" pooled.hdf5

    FILE has the vectors of a corpus: HDF5 (not Parquet) from `elmo embed`, any file
    from `elmo occurrences`, a folder from `elmo distribute`, or a pattern such as
    '*.hdf5'. Several files need the same model and layers. SENTENCE is embedded like
    FILE.

    Each line of the output has a cosine, a line number (from 1) or id, and the sentence
    with the word in brackets. With several files, the path is added: v.hdf5:76.
    Sentences with the same tokens as SENTENCE are left out. To judge a cosine, compare
    it with the average for two random vectors of FILE, on standard error.

    WORD is one token of SENTENCE, and case counts. If it is missing, or occurs several
    times without --occurrence, you get an error (status 1).

    To search for many words, use --queries. The output is a table with a row for each
    neighbour of each query. If a word is missing, or occurs several times without its
    occurrence, the query has no rows. A warning counts such queries, and the exit
    status is 0.
    """
    has_query_option = sentence is not None or queries is not None
    query, paths = _split_arguments(arguments, are_files=has_query_option)
    _check_paths(query, paths, has_query_option=has_query_option)

    from elmo_cli.analysis.search.vector_files import open_occurrences

    with open_occurrences(*paths) as files:
        are_pooled = "pooling" in files.attributes
        pooled = sentence is not None or (queries is not None and are_pooled)
        files.check_pooling(pooled=pooled)
        settings = settings_from(NeighbourSettings, values)
        if settings.other_words:
            files.check_other_words()
        if files.has_token_layer(layers):
            stderr.warn("these vectors include layer 0, which finds similar spelling")
        model_settings = _model_of(files, settings_from(ModelSettings, values))
        text_settings = settings_from(TextSettings, values)
        text_settings = _with_tokenizer_of(files, text_settings)

        from elmo_cli.pretrained.find_model import resolve_model

        model = resolve_model(model_settings)
        chunks: Iterable[list[Occurrence | InputError]]
        if queries is not None:
            table = open_command_text(
                queries, query_settings(text_settings, pooled=pooled), model
            )
            chunks = read_query_table(table, pooled=pooled)
        elif sentence is not None:
            tokenizer = choose_command_tokenizer(text_settings, model, [sentence])
            chunks = [[_typed_sentence(sentence, tokenizer)]]
        else:
            word, text = query
            tokenizer = choose_command_tokenizer(text_settings, model, [text])
            chunks = [
                [_find_in_text(word, text, occurrence=occurrence, tokenizer=tokenizer)]
            ]
        results = _search(
            files,
            chunks,
            _load_embedder(files, model),
            settings=settings,
            layers=layers,
            name="standard input" if queries == STANDARD_INPUT else str(queries),
        )
        if queries is not None or row_format is not None:
            _print_table(results, row_format, pooled=pooled)
        else:
            for nearest in results:
                _print_neighbours(files, nearest)


def _split_arguments(
    arguments: tuple[str, ...], *, are_files: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the typed query and the files.

    The query is WORD and SENTENCE, or empty if all arguments are files.
    """
    if are_files:
        check_not_empty(arguments, ["FILE"] * len(arguments))
        return (), arguments
    check_not_empty(arguments, ["WORD", "SENTENCE"] + ["FILE"] * len(arguments))
    if arguments[:1] == (STANDARD_INPUT,):
        raise SettingsError(Template("to read queries from a pipe, use {--queries -}"))
    if arguments[1:2] == (STANDARD_INPUT,):
        raise SettingsError(
            "-: expected the sentence itself",
            remedy="To read queries from a pipe, use {--queries -}.",
        )
    return arguments[:2], arguments[2:]


def _check_paths(
    query: tuple[str, ...], paths: tuple[str, ...], *, has_query_option: bool
) -> None:
    """Raise an error for missing files, and for a sentence without quotes."""
    has_sentence = len(query) == 2
    if has_sentence and os.path.exists(query[1]):
        if not paths:
            raise missing_error("SENTENCE")
        raise SettingsError(
            f"{query[1]}: a file, not a sentence",
            remedy="Type the sentence in quotes, or give a table with {--queries}.",
        )
    if not paths:
        names = ("WORD", "SENTENCE", "FILE")
        raise missing_error("FILE" if has_query_option else names[len(query)])
    first = paths[0]
    if has_sentence and os.path.isfile(query[0]) and not os.path.exists(paths[-1]):
        raise misused_error(f"{query[0]}: a file, but WORD comes first")
    if has_sentence and " " in query[0] and " " not in query[1]:
        raise swapped_error(query[1], query[0], *paths)
    if has_query_option and first.isalpha() and not os.path.exists(first):
        raise SettingsError(
            f"{first}: no such file",
            remedy="With {--queries} or {--sentence}, give only FILE.",
        )
    if has_sentence and paths[1:] and first.isalpha() and not os.path.exists(first):
        raise SettingsError(
            f"{first}: no such file", remedy="Put quotes around the sentence."
        )


def _find_in_text(
    word: str, text: str, occurrence: int | None, tokenizer: "Tokenizer"
) -> "Occurrence":
    from elmo_cli.text.occurrences import numbers_after, occurrence_of

    tokens = tokenizer.tokenize(text)
    return occurrence_of(
        word,
        tokens,
        number=occurrence,
        choice_of=partial(numbers_after, "--occurrence "),
    )


def _typed_sentence(sentence: str, tokenizer: "Tokenizer") -> "Occurrence":
    """Return a query for a sentence, which any of its words represents."""
    from elmo_cli.text.occurrences import Occurrence

    tokens = tokenizer.tokenize(sentence)
    if not tokens:
        raise SettingsError(Template("{--sentence} must not be empty"))
    return Occurrence(tokens, 0)


def _search(
    files: "VectorFiles",
    chunks: "Iterable[list[Occurrence | InputError]]",
    embedder: "ElmoEmbedder",
    *,
    settings: NeighbourSettings,
    layers: str | None,
    name: str,
) -> "Iterator[list[Neighbour]]":
    """Yield the neighbours of each query, and print the mean cosine once.

    A query whose word was not found has none. At the end, warn about such queries, with
    the `name` of their table.
    """
    from elmo_cli.analysis.search.word_neighbours import find_word_neighbours

    has_printed = False
    n_rows = 0
    errors = []
    for chunk in chunks:
        queries = []
        for query in chunk:
            n_rows += 1
            if isinstance(query, InputError):
                errors.append(f"{name}, row {n_rows}: {stderr.shown_message(query)}")
            else:
                queries.append(query)
        with progress_bar.progress_bar(" records", leave=False) as bar:
            files.on_progress = bar.update
            found = find_word_neighbours(
                embedder,
                files,
                queries,
                top=settings.top,
                layers=layers,
                other_words=settings.other_words,
            )
        if not has_printed and found.mean_cosine is not None:
            if "pooling" in files.attributes:
                pair = "sentences"
            elif all(source.has_targets for source in files.sources):
                pair = "occurrences"
            else:
                pair = "tokens"
            stderr.say(
                f"Cosine of two random {pair}: {found.mean_cosine:.4f} on average"
            )
            has_printed = True
        nearest = iter(found.nearest)
        for query in chunk:
            yield [] if isinstance(query, InputError) else next(nearest)
    if errors:
        stderr.warn(
            f"{counted(len(errors), 'row')} without neighbours. The first is "
            f"{errors[0]}"
        )


def _print_table(
    results: "Iterable[list[Neighbour]]", row_format: str | None, *, pooled: bool
) -> None:
    """Print a row per neighbour of each query."""
    from elmo_cli.analysis.search.neighbours import neighbour_columns, neighbour_rows

    with open_row_printer(row_format, neighbour_columns(pooled=pooled)) as rows:
        for number, nearest in enumerate(results, start=1):
            rows.write(neighbour_rows(number, nearest, pooled=pooled))


def _print_neighbours(files: "VectorFiles", nearest: "list[Neighbour]") -> None:
    """Print neighbours, one per line."""
    for neighbour in nearest:
        name = str(neighbour.location.name)
        if len(files.paths) > 1:
            name = f"{neighbour.location.path}:{name}"
        if "pooling" in files.attributes:
            text = " ".join(neighbour.sentence)
        else:
            text = neighbour.marked
        click.echo(f"{neighbour.cosine:7.4f}  {name:>5}  {text}")


def _model_of(files: "VectorFiles", settings: ModelSettings) -> ModelSettings:
    """Return the options of the model that made files, unless another is named."""
    recorded = ModelSettings.from_attributes(files.attributes)
    have_targets = all(source.has_targets for source in files.sources)
    if not files.attributes and have_targets:
        # Only AllenNLP's files without attributes carry the state.
        recorded = ModelSettings()
    if settings.model is not None or settings.options_file is not None:
        return replace(settings, state=recorded.state)
    if recorded.model is None:
        raise SettingsError(
            f"{files.paths[0]}: unknown model", remedy="Name it with {--model}."
        )
    return replace(settings, model=recorded.model, state=recorded.state)


def _with_tokenizer_of(files: "VectorFiles", settings: TextSettings) -> TextSettings:
    """Return options with the tokenizer of the files, unless the user chooses one.

    Files of tokenized text record none. Queries may be raw all the same.
    """
    from elmo_cli.options.tokenizer_names import recorded_tokenizer

    recorded = recorded_tokenizer(files.attributes)
    if recorded is None or options_on_command_line("--tokenizer", "--language"):
        return settings
    return replace(settings, tokenizer=recorded)


def _load_embedder(files: "VectorFiles", model: "ResolvedModel") -> "ElmoEmbedder":
    """Load the model of files; an error says that --model can name another."""
    try:
        return load_resolved_embedder(model)
    except ModelError as error:
        if options_on_command_line("--model", "--options-file"):
            raise
        # --model is the only remedy.
        raise ModelError(
            "the model of {path}: {problem}",
            remedy="Give its new path with {--model}.",
            path=files.paths[0],
            problem=problem_of(error),
        ) from None
