"""`elmo predict`: the words that follow a text, or that fill the gap in it."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import in_chunks, print_rows
from elmo_cli.cli.command import command, option_group, typed_options
from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.records.text_input import TextInput
from elmo_cli.text.sources import STANDARD_INPUT, Source
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.errors.checks import Sentence
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.language_model.prediction import Answer
    from elmo_cli.language_model.scored_records import ScoredRecord


_READING = (
    *(
        "--input-format",
        "--text-column",
        "--id-column",
        "--keep-columns",
        "--paragraphs",
    ),
    *("--split-sentences", "--word-column"),
)
"""Options that have no effect on a text that is an argument."""


@dataclass(frozen=True)
class _Choices:
    top: int = 10
    backward: bool = False
    with_unknown: bool = False
    each: bool = False
    n_samples: int | None = None
    temperature: float = 1
    max_words: int = 50
    seed: int = 0
    row_format: str | None = None


@command()
@click.argument("text", required=False)
@options.path_option(
    "--file FILE",
    help="Read texts from a file, one per line, or another format; - is standard input.",
)
@options.count("--top", default=10, excludes="--sample", help="Number of words.")
@options.flag("--backward", help="Predict the words before TEXT.")
@options.flag(
    "--with-unknown",
    excludes="--sample or --each",
    help="Also show <UNK>, which represents all words outside the vocabulary.",
)
@options.flag(
    "--each",
    excludes="--backward or --sample",
    help="Predict substitutes for each token.",
)
@options.count("--sample", "n_samples", help="Sample N random continuations of TEXT.")
@options.option(
    "--temperature T",
    type=click.FloatRange(min=0, min_open=True),
    default=1,
    requires="--sample",
    help="Temperature: values below 1 make probable words more probable.",
)
@options.count(
    "--max-words", default=50, requires="--sample", help="Maximum number of new words."
)
@options.count(
    "--seed", least=0, default=0, requires="--sample", help="Seed of --sample."
)
@option_group("Output", options.row_options(), options.keep_columns_option)
@options.text_options("moses")
@options.language_model_options
def predict(
    text: str | None,
    file: str | None,
    choices: _Choices,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Predict the words that follow TEXT, or that fill the gap ___ in it.

    Prints the most probable words of the vocabulary with their probabilities; </S> is the end
    of the sentence. A gap, and each token with --each, is predicted in both directions. To
    predict words for many texts, use --file FILE, or - instead of TEXT. The output is then a
    table with one row per word: the id of the text, or its line number from 1; the rank of
    the word, the word and its probability. With --each, it also contains the position of the
    token, from 0, the token, and whether it is in the vocabulary.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river ."
    $ elmo predict "The king" --sample 3 --temperature 0.7 --seed 1
    $ elmo predict - --each --top 3 < texts.txt
    $ elmo predict --file items.csv --text-column sentence --top 3 --format csv
    """
    path = _find_texts(text, file)
    opened: Tokenizer | TextInput
    if path is None:
        opened = loading.load_tokenizer(text_settings, model_settings)
    else:
        source = Source(path)
        source.check()
        opened = loading.open_text(source, text_settings, model_settings, "moses")
        if opened.splits_records and not choices.each:
            raise click.UsageError("--split-sentences of a table requires --each")
        text_settings.check_whole_records()
    model = loading.load_language_model(model_settings)
    with _open_texts(text or "", opened, each=choices.each) as texts:
        _print_answers(texts, model, choices)


def _find_texts(text: str | None, file: str | None) -> str | None:
    """Return the file of the texts, or None if the argument is the text."""
    if (text is None) == (file is None):
        raise click.UsageError("give TEXT or --file FILE")
    if text is not None and os.path.isfile(text):
        problem = "TEXT is the text itself, but a file with this name exists"
        remedy = f"To read its texts, use `elmo predict --file {shlex.quote(text)}`."
        raise click.UsageError(f"{text}: {problem}. {remedy}")
    if text is not None and text != STANDARD_INPUT and typed_options(*_READING):
        raise click.UsageError(
            f"{typed_options(*_READING)[0]} requires --file FILE, or - as TEXT"
        )
    return file or (STANDARD_INPUT if text == STANDARD_INPUT else None)


class _Texts(NamedTuple):
    """Texts of the argument or of a file, in lists that can be read without waiting."""

    columns: tuple[str, ...]  # names of the columns that name a text
    chunks: Iterator[list[Record]]
    are_from_file: bool
    kept_columns: Mapping[str, object] = MappingProxyType({})
    """Columns of the input that the first row has."""

    def answered(
        self, find: "Callable[[list[Sentence]], Iterable[Answer]]"
    ) -> "Iterator[ScoredRecord[Answer]]":
        from elmo_cli.language_model.scored_records import (
            ScoredRecord,
            record_names,
            score_records,
        )

        numbers = count(1)
        for chunk in self.chunks:
            for scored in score_records(
                chunk, lambda sentences: iter(find([*sentences]))
            ):
                names = record_names(next(numbers), scored.record)
                yield ScoredRecord(names, scored.record, _joined(scored.result))


def _joined(answers: "list[Answer]") -> "Answer":
    from elmo_cli.language_model.substitutes import Substitutes

    if len(answers) == 1:
        return answers[0]
    parts = [answer for answer in answers if isinstance(answer, Substitutes)]
    tokens = [token for part in parts for token in part.tokens]
    return Substitutes(tokens, [each for part in parts for each in part.candidates])


@contextmanager
def _open_texts(
    text: str, opened: Tokenizer | TextInput, *, each: bool
) -> Iterator[_Texts]:
    """Open the text, given with its tokenizer, or the texts in a file."""
    from elmo_cli.language_model.gaps import GAP, check_text, cut_around_gaps
    from elmo_cli.language_model.scored_records import name_columns

    def check(record: Record) -> Record:
        if each and GAP in record.tokens:
            raise InputError(f"--each cannot be used with a gap ({GAP})")
        return record if each else record._replace(tokens=check_text(record.tokens))

    if isinstance(opened, Tokenizer):
        tokens = cut_around_gaps(text, partial(loading.typed_tokens, opened))
        yield _Texts(("line",), iter([[check(Record(text, tokens))]]), False)
        return
    if not opened.format.has_tokens:
        tokenize = partial(cut_around_gaps, cut=opened.tokenizer.tokenize)
        opened = replace(opened, tokenizer=replace(opened.tokenizer, tokenize=tokenize))
    with open_records(opened, ids="rows") as read:
        columns = name_columns(read, is_split=opened.splits_lines)
        name = f"{opened.source.name}, {opened.format.unit}"
        chunks = in_chunks(read.records, check, read.is_ready, name)
        yield _Texts(columns, chunks, True, read.example.columns)


def _finder(
    model: "LanguageModel", choices: _Choices
) -> "tuple[Callable[[list[Sentence]], Iterable[Answer]], Sequence[str]]":
    from elmo_cli.language_model.next_words import PREDICTION_COLUMNS, predict_words
    from elmo_cli.language_model.samples import (
        SAMPLE_COLUMNS,
        Samples,
        sample_sentences,
    )
    from elmo_cli.language_model.substitutes import SUBSTITUTE_COLUMNS, substitute_words

    def chosen(*names: str) -> dict[str, Any]:
        return {name: getattr(choices, name) for name in names}

    def sample(texts: "list[Sentence]") -> "Iterator[Answer]":
        settings = chosen("n_samples", "backward", "temperature", "seed", "max_words")
        for text in texts:
            yield Samples(text, sample_sentences(model, text, **settings))

    if choices.n_samples is not None:
        return sample, SAMPLE_COLUMNS
    if choices.each:
        substitute = partial(substitute_words, model, top=choices.top)
        return substitute, SUBSTITUTE_COLUMNS
    predict = partial(predict_words, model, **chosen("top", "backward", "with_unknown"))
    return predict, PREDICTION_COLUMNS


def _print_answers(texts: _Texts, model: "LanguageModel", choices: _Choices) -> None:
    from elmo_cli.language_model.next_words import Prediction
    from elmo_cli.language_model.prediction import rows_of

    find, columns = _finder(model, choices)
    is_table = texts.are_from_file and choices.n_samples is None
    as_rows = choices.row_format is not None or is_table
    printer = print_rows(
        choices.row_format, [*texts.columns, *columns], texts.kept_columns
    )
    shares = []
    with printer if as_rows else nullcontext() as rows:
        for scored in texts.answered(find):
            answer = scored.result
            if rows is not None:
                rows.write(rows_of(answer, model), scored.record.columns, scored.names)
            else:
                for line in _lines(answer):
                    click.echo(line)
            if isinstance(answer, Prediction) and answer.place != "gap":
                shares.append(answer.unknown)
    if shares and not choices.with_unknown:
        share = (
            f"{sum(shares) / len(shares):.1%}{' on average' if len(shares) > 1 else ''}"
        )
        name = "<UNK>, which represents all words outside the vocabulary,"
        messages.say(f"{name} has {share}. Use --with-unknown to show it.")


def _lines(answer: "Answer") -> Iterator[str]:
    from elmo_cli.language_model.next_words import Prediction
    from elmo_cli.language_model.samples import Samples

    if isinstance(answer, Samples):
        yield from map(" ".join, answer.samples)
        return
    lists = [answer.candidates] if isinstance(answer, Prediction) else answer.candidates
    for index, candidates in enumerate(lists):
        if not isinstance(answer, Prediction):
            yield answer.tokens[index]
        for word, probability in candidates:
            yield f"{probability:8.4f}  {word}"
