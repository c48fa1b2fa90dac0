"""`elmo cosine`."""

import os
import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.command import command
from elmo_cli.cli.command_texts import choose_command_tokenizer, open_command_text
from elmo_cli.cli.load_model import load_resolved_embedder
from elmo_cli.cli.queries import (
    PairColumns,
    peek_first_line,
    read_pair_table,
    read_queries,
)
from elmo_cli.cli.row_printer import RowPrinter, cell, open_row_printer
from elmo_cli.cli.usage_errors import (
    check_not_empty,
    missing_error,
    misused_error,
    swapped_error,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import counted
from elmo_cli.options.fields import settings_from
from elmo_cli.options.layers import parse_mean_layers
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import STANDARD_INPUT, Source

if TYPE_CHECKING:
    from elmo_cli.cli.queries import PairRow
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.inference.similarity import Similarity
    from elmo_cli.text.occurrences import Occurrence
    from elmo_cli.text.tokenizers import Tokenizer

_ARGUMENTS = ("WORD", "SENTENCE1", "SENTENCE2")


@command("cosine", "--pairs TABLE", "WORD -")
@click.argument("arguments", metavar="WORD SENTENCE1 SENTENCE2", nargs=-1)
@shared_options.command_option(
    "--word2 WORD", help="Word in SENTENCE2, if it differs from WORD."
)
@shared_options.count(
    "--occurrence1", help="Use the N-th occurrence of WORD in SENTENCE1."
)
@shared_options.count(
    "--occurrence2", help="Use the N-th occurrence of the word in SENTENCE2."
)
@shared_options.path_option(
    "--pairs TABLE",
    excludes=["--word2", "--occurrence1", "--occurrence2"],
    help=(
        "Table of pairs with the columns word (or word1 and word2), sentence1 and "
        "sentence2. If a word occurs more than once, add the columns occurrence1 and "
        "occurrence2 (from 1), or its character offsets start1, end1, start2 and end2 "
        "(from 0)."
    ),
)
@shared_options.mean_layers_option(
    help="Layers to average before comparing, such as 2 or 1,2.",
    default_text="all, which compares each layer and their average",
)
@shared_options.row_options("plain text, or tsv with --pairs")
@shared_options.input_format_option(requires=["--pairs"])
@shared_options.text_column_option(
    help="Columns with the sentences, NAME1,NAME2.",
    default_text="sentence1,sentence2",
    requires=["--pairs"],
)
@shared_options.cell_options(requires=["--pairs"])
@shared_options.tokenizer_options()
@shared_options.model_options()
@shared_options.speed_options()
def cosine(
    arguments: tuple[str, ...],
    word2: str | None,
    occurrence1: int | None,
    occurrence2: int | None,
    pairs: str | None,
    layers: str | None,
    row_format: str | None,
    **values: Any,
) -> None:
    """Compare the vectors of WORD in SENTENCE1 and in SENTENCE2.

    \b
    $ elmo cosine bank "I sat by the bank." "The bank lent us money."
    $ elmo cosine --pairs wic.csv --layers 2 --format csv > cosines.csv
    $ elmo cosine bank - --layers 2 < pairs.tsv

    The output is the cosine similarity in each layer, and for the mean of all layers.
    Layer 0 does not depend on the sentence.

    To compare many pairs, use --pairs with a table such as WiC; the output repeats its
    columns. In a pipe, type - instead of the sentences. Each input line then has two
    sentences, separated by a tab, and each output line has the cosines, separated by
    tabs.
    """
    reads_lines = arguments[1:2] == (STANDARD_INPUT,)
    _check_arguments(arguments, has_table=pairs is not None, reads_lines=reads_lines)
    from elmo_cli.text.choose_tokenizer import raw_or_all

    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)

    from elmo_cli.pretrained.find_model import resolve_model

    resolved = resolve_model(model_settings)

    def find_typed_pair(sentences: Sequence[str], tokenizer: "Tokenizer") -> "PairRow":
        return _find_pair(
            sentences,
            words=(arguments[0], word2 or arguments[0]),
            numbers=(occurrence1, occurrence2),
            tokenizer=tokenizer,
        )

    chunks: Iterable[list[PairRow]]
    if pairs is not None:
        sides = PairColumns.of(text_settings.text_column)
        table = open_command_text(pairs, sides.settings(text_settings), resolved)
        chunks = read_pair_table(table, sides)
    elif reads_lines:
        source = Source(STANDARD_INPUT)
        first = raw_or_all(peek_first_line(source).split("\t"))
        tokenizer = choose_command_tokenizer(
            text_settings, resolved, first, are_typed=False
        )
        chunks = read_queries(
            source, lambda line: find_typed_pair(line.split("\t"), tokenizer)
        )
    else:
        typed = raw_or_all(arguments[1:])
        tokenizer = choose_command_tokenizer(text_settings, resolved, typed)
        # A wrong word is an error before the model is loaded.
        chunks = [[find_typed_pair(arguments[1:], tokenizer)]]
    if layers == "all":  # Each layer, as in the other commands.
        layers = None
    embedder = load_resolved_embedder(
        resolved, check_layers=partial(parse_mean_layers, layers or "all")
    )
    if pairs is None and row_format is None:
        _print_cosines(embedder, chunks, layers, for_people=not reads_lines)
        return
    if layers is None:
        numbers = range(embedder.architecture.n_layers)
        names = [f"cosine_{name}" for name in [*numbers, "average"]]
    else:
        names = ["cosine"]
    with open_row_printer(row_format, ["line", *names]) as rows:
        name = "standard input" if pairs in (None, STANDARD_INPUT) else pairs
        _write_pairs(embedder, chunks, name=str(name), layers=layers, rows=rows)


def _check_arguments(
    arguments: tuple[str, ...], *, has_table: bool, reads_lines: bool
) -> None:
    """Raise an error unless the arguments are a word and two sentences, or -."""
    if has_table:
        if arguments:
            raise SettingsError(
                f"{arguments[0]}: unexpected, because the table of --pairs has the "
                "sentences",
                remedy=f"Remove {literal(shlex.join(arguments))}.",
            )
        return
    n_expected = 2 if reads_lines else 3
    if len(arguments) < n_expected:
        raise missing_error(_ARGUMENTS[len(arguments)])
    if len(arguments) > n_expected:
        unexpected = arguments[n_expected]
        if reads_lines:
            raise SettingsError(
                f"{unexpected}: unexpected, because - reads the sentences from "
                "standard input"
            )
        raise misused_error(f"{unexpected}: unexpected", "Put each sentence in quotes.")
    check_not_empty(arguments, _ARGUMENTS)
    word, *sentences = arguments
    if sentences[-1] == STANDARD_INPUT and not reads_lines:
        command = shlex.join(["elmo", "cosine", word, STANDARD_INPUT])
        raise SettingsError(
            "-: reads both sentences from standard input",
            remedy=f"Use `{literal(command)}`.",
        )
    if " " in word and " " not in sentences[-1]:
        raise swapped_error(sentences[-1], word, *sentences[:-1])
    for sentence in sentences:
        if sentence != STANDARD_INPUT and os.path.isfile(sentence):
            raise SettingsError(
                f"{sentence}: a file, but elmo cosine takes the sentence itself",
                remedy="For a file, use {--pairs}.",
            )


def _find_pair(
    sentences: Sequence[str],
    *,
    words: tuple[str, str],
    numbers: tuple[int | None, int | None],
    tokenizer: "Tokenizer",
) -> "PairRow":
    """Return the columns of a pair of typed sentences, and its two occurrences."""
    from elmo_cli.text.occurrences import numbers_after, occurrence_of

    if len(sentences) != 2:
        raise InputError(
            f"expected two sentences separated by a tab, found {len(sentences)}"
        )
    columns: dict[str, object] = {}
    for side in (1, 2):
        columns[f"word{side}"] = words[side - 1]
        columns[f"occurrence{side}"] = numbers[side - 1] or 1
        columns[f"sentence{side}"] = sentences[side - 1]

    def find_on_side(side: int) -> "Occurrence":
        tokens = tokenizer.tokenize(sentences[side - 1])
        choice_of = partial(numbers_after, f"--occurrence{side} ")
        return occurrence_of(
            words[side - 1], tokens, number=numbers[side - 1], choice_of=choice_of
        )

    return columns, (find_on_side(1), find_on_side(2))


def _write_pairs(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    name: str,
    layers: str | None,
    rows: RowPrinter,
) -> None:
    """Write a row per pair. The cosines are empty where a word was not found.

    `name` is that of the table, for warnings.
    """
    errors = []
    others = []  # words that are not one whole token each
    n_rows = 0
    for chunk in chunks:
        found = iter(_similarities(embedder, chunk, layers))
        for columns, pair in chunk:
            n_rows += 1
            cosines: Sequence[float | None]
            if isinstance(pair, InputError):
                errors.append(f"{name}, row {n_rows}: {stderr.shown_message(pair)}")
                cosines = [None] * (
                    embedder.architecture.n_layers + 1 if layers is None else 1
                )
            else:
                cosines = _cosines(next(found), layers)
                others += [
                    f"{name}, row {n_rows}: {occurrence.token!r}"
                    for occurrence in pair
                    if not occurrence.is_one_token
                ]
            rows.write([[n_rows, *cosines]], columns)
    if errors:
        stderr.warn(
            f"{counted(len(errors), 'row')} without cosines. The first is {errors[0]}"
        )
    if others:
        are = "is" if len(others) == 1 else "are"
        stderr.warn(
            f"{counted(len(others), 'annotated word')} {are} not one whole token. The "
            "vector is the mean of all tokens that the characters overlap. The first "
            f"is {others[0]}"
        )


def _similarities(
    embedder: "ElmoEmbedder", chunk: "list[PairRow]", layers: str | None
) -> "list[Similarity]":
    """Return the similarity of each pair that was found."""
    pairs = [pair for _, pair in chunk if not isinstance(pair, InputError)]
    return embedder.similarities(pairs, layers="all" if layers is None else layers)


def _cosines(similarity: "Similarity", layers: str | None) -> list[float]:
    """Return the cosine of the mean of layers; by default of each layer, and of all."""
    if layers is None:
        return [*similarity.layers, similarity.average]
    return [similarity.average]


def _print_cosines(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    layers: str | None,
    *,
    for_people: bool,
) -> None:
    """Print the cosines of each pair, or `for_people` a table of all layers.

    People get four decimals, and programs six.
    """
    for chunk in chunks:
        for similarity in _similarities(embedder, chunk, layers):
            if not for_people:
                click.echo("\t".join(map(cell, _cosines(similarity, layers))))
                continue
            if layers is not None:
                click.echo(f"{similarity.average:.4f}")
                continue
            click.echo(similarity.first.marked)
            click.echo(similarity.second.marked)
            click.echo()
            for index, value in enumerate(similarity.layers):
                click.echo(f"layer {index}  {value:8.4f}")
            click.echo(f"average  {similarity.average:8.4f}")
