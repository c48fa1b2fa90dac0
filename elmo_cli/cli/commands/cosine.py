"""`elmo cosine`."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
from elmo_cli.cli.row_printer import cell, open_row_printer
from elmo_cli.cli.usage_errors import (
    check_not_empty,
    missing_error,
    misused_error,
    swapped_error,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Template, literal
from elmo_cli.errors.wording import counted, excerpt
from elmo_cli.options.fields import settings_from
from elmo_cli.options.layers import parse_mean_layers
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import STANDARD_INPUT, Source

if TYPE_CHECKING:
    from elmo_cli.cli.queries import PairRow
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.inference.similarity import Similarity
    from elmo_cli.text.occurrences import Occurrence, OccurrencePair
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
        "(from 0, end exclusive)."
    ),
)
@shared_options.mean_layers_option(
    help=(
        "Layers to average before comparing: numbers such as 2 or 1,2, or names such "
        "as top. See `elmo help layers`."
    ),
    default_text="all, which compares each layer and their average",
)
@shared_options.row_options("plain text, or tsv with --pairs")
@shared_options.input_format_option(
    requires=["--pairs"], help="Format of --pairs; see `elmo help formats`."
)
@shared_options.text_column_option(
    help="Columns of --pairs with the sentences, NAME1,NAME2.",
    default_text="sentence1,sentence2",
    requires=["--pairs"],
)
@shared_options.cell_options(needs_header=True, requires=["--pairs"])
@shared_options.tokenizer_options()
@shared_options.model_options(may_carry=False)
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

    The output is the cosine of the two vectors in each layer, and of their averages
    over all layers. The more similar the two uses of WORD are, the higher it is. For
    meaning, read layer 2. Layer 0 does not depend on the sentence.

    WORD is one token of each sentence, and case counts. If it is missing, or occurs
    several times without --occurrence1 or --occurrence2, you get an error (status 1).

    To compare many pairs, use --pairs with a table such as WiC. The output has a row
    for each pair: its number, the cosines, and the columns of TABLE.

    In a pipe, type - instead of the sentences. Each input line must have two sentences,
    separated by a tab, and each output line has their cosines. Another line, such as a
    blank one, stops the command (status 1). For a header and more columns, add
    --format.

    If WORD is missing, or occurs several times, in a pair of a table or pipe, the
    cosines of this pair are empty. A warning counts such pairs, and the exit status is
    0.
    """
    reads_lines = arguments[1:2] == (STANDARD_INPUT,)
    _check_arguments(arguments, has_table=pairs is not None, reads_lines=reads_lines)
    from elmo_cli.text.choose_tokenizer import raw_or_all

    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    if model_settings.state == "carry":
        raise SettingsError(
            Template("{--state carry}: pairs of sentences start from zero or warm"),
            remedy="Choose {--state zero} or {--state warm}.",
        )

    from elmo_cli.pretrained.find_model import resolve_model

    resolved = resolve_model(model_settings)

    def typed_pair(sentences: Sequence[str], tokenizer: "Tokenizer") -> _TypedPair:
        return _TypedPair(
            words=(arguments[0], word2 or arguments[0]),
            numbers=(occurrence1, occurrence2),
            sentences=sentences,
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

        def parse(line: str) -> "PairRow":
            return typed_pair(_sentences_in_line(line), tokenizer).find_or_error()

        chunks = read_queries(source, parse)
    else:
        typed = raw_or_all(arguments[1:])
        tokenizer = choose_command_tokenizer(text_settings, resolved, typed)
        # A wrong word is an error before the model is loaded.
        pair = typed_pair(arguments[1:], tokenizer)
        chunks = [[(pair.columns(is_found=True), pair.find())]]
    if layers == "all":  # Each layer, as in the other commands.
        layers = None
    embedder = load_resolved_embedder(
        resolved, check_layers=partial(parse_mean_layers, layers or "all")
    )
    if pairs is None and not reads_lines and row_format is None:
        _print_for_people(embedder, chunks, layers)
        return
    unit = "row" if pairs is not None else "line"
    name = "standard input" if pairs in (None, STANDARD_INPUT) else str(pairs)
    comparisons = _compare_pairs(embedder, chunks, layers, name=name, unit=unit)
    if pairs is None and row_format is None:
        for comparison in comparisons:
            click.echo("\t".join(map(cell, comparison.cosines)))
        return
    _print_table(comparisons, row_format, _cosine_names(embedder, layers))


def _check_arguments(
    arguments: tuple[str, ...], *, has_table: bool, reads_lines: bool
) -> None:
    """Raise an error unless the arguments are a word and two sentences, or -."""
    if has_table:
        if arguments:
            raise SettingsError(
                "{first}: unexpected, because the table of {--pairs} has the sentences",
                remedy="Remove {arguments}.",
                first=excerpt(arguments[0]),
                arguments=shlex.join(arguments),
            )
        return
    n_expected = 2 if reads_lines else 3
    if len(arguments) < n_expected:
        _check_are_no_files(arguments)
        raise _missing_argument_error(arguments)
    if len(arguments) > n_expected:
        unexpected = arguments[n_expected]
        if reads_lines:
            raise SettingsError(
                f"{excerpt(unexpected)}: unexpected, because - reads the sentences "
                "from standard input"
            )
        raise _extra_sentence_error(arguments)
    check_not_empty(arguments, _ARGUMENTS)
    word, *sentences = arguments
    if sentences[-1] == STANDARD_INPUT and not reads_lines:
        command = shlex.join(["elmo", "cosine", word, STANDARD_INPUT])
        raise SettingsError(
            "-: reads both sentences from standard input",
            remedy=f"Use `{literal(command)}`.",
        )
    _check_are_sentences(word, sentences)


def _check_are_sentences(word: str, sentences: list[str]) -> None:
    """Raise an error if a sentence is the word, or the name of a file."""
    for place, sentence in enumerate(sentences):
        if " " in word and " " not in sentence and sentence != STANDARD_INPUT:
            others = sentences[:place] + sentences[place + 1 :]
            raise swapped_error(sentence, word, *others)
    _check_are_no_files(sentences)


def _check_are_no_files(arguments: Sequence[str]) -> None:
    """Raise an error if an argument is the name of a file."""
    for argument in arguments:
        if argument != STANDARD_INPUT and os.path.isfile(argument):
            command = shlex.join(["elmo", "cosine", "--pairs", argument])
            raise SettingsError(
                f"{argument}: a file, but elmo cosine takes the sentence itself",
                remedy=f"For a table of pairs, use `{literal(command)}`.",
            )


def _missing_argument_error(arguments: tuple[str, ...]) -> Exception:
    """Return the error for a missing word or sentence."""
    if arguments == (STANDARD_INPUT,):
        return misused_error("WORD is missing", "Put it before -.")
    return missing_error(_ARGUMENTS[len(arguments)])


def _extra_sentence_error(arguments: tuple[str, ...]) -> Exception:
    """Return the error for a third sentence, or for sentences without quotes."""
    extra = arguments[3]
    if all(" " in sentence for sentence in arguments[1:]):
        return SettingsError(
            f"{excerpt(extra)}: unexpected, because elmo cosine takes two sentences",
            remedy="For many pairs, use {--pairs} TABLE.",
        )
    return misused_error(
        f"{excerpt(extra)}: unexpected", "Put each sentence in quotes."
    )


class _TypedPair(NamedTuple):
    """Two typed sentences, and the words to find in them."""

    words: tuple[str, str]
    numbers: tuple[int | None, int | None]
    """Which occurrence of each word, from 1; None if it should occur once."""
    sentences: Sequence[str]
    tokenizer: "Tokenizer"

    def columns(self, *, is_found: bool) -> dict[str, object]:
        """Return the columns of its row."""
        columns: dict[str, object] = {}
        only = 1 if is_found else None  # A word without a number occurs once.
        for side in (1, 2):
            columns[f"word{side}"] = self.words[side - 1]
            columns[f"occurrence{side}"] = self.numbers[side - 1] or only
            columns[f"sentence{side}"] = self.sentences[side - 1]
        return columns

    def find(self) -> "OccurrencePair":
        """Return the two occurrences, or raise an `InputError`."""
        return self._find_on_side(1), self._find_on_side(2)

    def find_or_error(self) -> "PairRow":
        """Return its columns, and the two occurrences or why they were not found."""
        try:
            return self.columns(is_found=True), self.find()
        except InputError as error:
            return self.columns(is_found=False), error

    def _find_on_side(self, side: int) -> "Occurrence":
        from elmo_cli.text.occurrences import numbers_after, occurrence_of

        return occurrence_of(
            self.words[side - 1],
            self.tokenizer.tokenize(self.sentences[side - 1]),
            number=self.numbers[side - 1],
            choice_of=partial(numbers_after, f"--occurrence{side} "),
        )


def _sentences_in_line(line: str) -> list[str]:
    """Return the two sentences in a line of standard input."""
    sentences = [sentence.strip() for sentence in line.split("\t")]
    if len(sentences) != 2:
        raise InputError(
            f"expected two sentences separated by a tab, found {len(sentences)}"
        )
    return sentences


def _cosine_names(embedder: "ElmoEmbedder", layers: str | None) -> list[str]:
    """Return the names of the columns with the cosines of a pair."""
    if layers is not None:
        return ["cosine"]
    numbers = range(embedder.architecture.n_layers)
    return [f"cosine_{name}" for name in [*numbers, "average"]]


class _Comparison(NamedTuple):
    """Pair with its cosines."""

    number: int
    """Number of its row or line, from 1."""
    cosines: Sequence[float | None]
    """None where a word was not found."""
    columns: Mapping[str, object]


def _compare_pairs(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    layers: str | None,
    *,
    name: str,
    unit: str,
) -> "Iterator[_Comparison]":
    """Yield the cosines of each pair. At the end, warn about pairs without any.

    `name` is that of the input, and `unit` is what a pair is in it: a row or a line.
    """
    errors = []
    others = []  # words that are not one whole token each
    number = 0
    n_cosines = 1 if layers is not None else embedder.architecture.n_layers + 1
    for chunk in chunks:
        found = iter(_similarities(embedder, chunk, layers))
        for columns, pair in chunk:
            number += 1
            if isinstance(pair, InputError):
                errors.append(f"{name}, {unit} {number}: {stderr.shown_message(pair)}")
                yield _Comparison(number, [None] * n_cosines, columns)
                continue
            others += [
                f"{name}, {unit} {number}: {occurrence.token!r}"
                for occurrence in pair
                if not occurrence.is_one_token
            ]
            yield _Comparison(number, _cosines(next(found), layers), columns)
    if errors:
        stderr.warn(
            f"{counted(len(errors), unit)} without cosines. The first is {errors[0]}"
        )
    if others:
        are = "is" if len(others) == 1 else "are"
        stderr.warn(
            f"{counted(len(others), 'annotated word')} {are} not one whole token. The "
            "vector is the mean of all tokens that the characters overlap. The first "
            f"is {others[0]}"
        )


def _print_table(
    comparisons: "Iterable[_Comparison]", row_format: str | None, names: Sequence[str]
) -> None:
    """Print a row per pair, with its cosines under `names`."""
    with open_row_printer(row_format, ["line", *names]) as rows:
        for comparison in comparisons:
            row = [comparison.number, *comparison.cosines]
            rows.write([row], comparison.columns)


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


def _print_for_people(
    embedder: "ElmoEmbedder",
    chunks: "Iterable[list[PairRow]]",
    layers: str | None,
) -> None:
    """Print the cosine of each pair, or if `layers` is None a table of all layers."""
    for chunk in chunks:
        for similarity in _similarities(embedder, chunk, layers):
            if layers is not None:
                click.echo(f"{similarity.average:.4f}")
                continue
            click.echo(similarity.first.marked)
            click.echo(similarity.second.marked)
            click.echo()
            for index, value in enumerate(similarity.layers):
                click.echo(f"layer {index}  {value:8.4f}")
            click.echo(f"average  {similarity.average:8.4f}")
