"""`elmo predict`: the words that follow a text, or that fill the gap in it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.chunks import parse_in_chunks
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import choose_command_tokenizer, open_command_text
from elmo_cli.cli.load_model import load_resolved_language_model
from elmo_cli.cli.option_conditions import find_option
from elmo_cli.cli.parameter_types import POSITIVE, TEXT_OR_PATH, WholeNumber
from elmo_cli.cli.queries import name_of_record
from elmo_cli.cli.row_printer import open_row_printer
from elmo_cli.cli.scored_text import (
    check_options_of_typed_text,
    is_typed_text,
    source_of,
)
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import missing_error
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template, option_named
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import Direction, ModelSettings
from elmo_cli.options.prediction import PredictionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.records.ids import IdRules
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.language_model.prediction_run import Answer, PredictionSummary
    from elmo_cli.language_model.scored_records import ScoredRecord


@command()
@click.argument("given", metavar="INPUT", type=TEXT_OR_PATH, required=False)
@shared_options.path_option("--file FILE", hidden=True, help="Same as INPUT.")
@field_option(PredictionSettings, "top", type=WholeNumber(1), excludes=["--samples"])
@field_option(PredictionSettings, "direction")
@field_option(PredictionSettings, "with_unknown", excludes=["--samples", "--each"])
@field_option(PredictionSettings, "each", excludes=["--direction", "--samples"])
@field_option(PredictionSettings, "samples", type=WholeNumber(1))
@field_option(PredictionSettings, "temperature", type=POSITIVE, requires=["--samples"])
@field_option(
    PredictionSettings, "max_words", type=WholeNumber(1), requires=["--samples"]
)
@field_option(PredictionSettings, "seed", type=WholeNumber(0), requires=["--samples"])
@option_group(
    "Output",
    shared_options.row_options("plain text for a typed text or --samples, else tsv"),
    shared_options.keep_columns_option(),
)
@shared_options.text_options()
@shared_options.language_model_options(may_carry=False)
def predict(
    given: str | None,
    file: str | None,
    row_format: str | None,
    **values: Any,
) -> None:
    """Predict the word that follows INPUT, or that fills the gap `___` in it.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river."
    $ elmo predict "The king" --samples 3 --temperature 0.7 --seed 1
    $ elmo predict - --each --top 3 < texts.txt
    $ elmo predict items.csv --text-column sentence --top 3 --format csv

    INPUT is a text file with one text per line, a table such as CSV, or - for standard
    input. If there is no such file, an INPUT with a space is the text itself; for a
    single word, use `echo the | elmo predict -`. Texts may be raw or tokenized.

    You get the most probable words of the vocabulary with their probabilities: plain
    lines for a typed text, else a table with a row per predicted word. </S> is the end
    of the sentence, and <S> its start (backward). A blank line predicts the first word
    of a sentence (backward: the last token).

    <UNK> stands for all words outside the vocabulary. A message says how much of the
    probability it takes, on average, if that is at least 0.1%. With --with-unknown, it
    is ranked like a word, so you see it if it is among the --top words.

    A gap is ___, _, [MASK] or [BLANK]. A text may have one. It is predicted from both
    sides, and so is each token with --each. Only words of the vocabulary can fill a
    gap, and their probabilities add up to 1.

    --samples continues the text with random words to the end of the sentence, and
    prints the tokens.

    For the probability of one given word in a text, use `elmo surprisal`.
    """
    settings = settings_from(PredictionSettings, values)
    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)
    if text_settings.keep_columns and settings.samples and row_format is None:
        raise SettingsError(
            Template("{--keep-columns} with {--samples}: requires {--format}"),
            remedy="Add it, or remove {--keep-columns}.",
        )
    given = _one_input(given, file)
    direction: Direction = "both" if settings.each else settings.direction
    if model_settings.state == "carry":
        raise SettingsError(
            Template("{--state carry}: predictions start from zero or warm"),
            remedy="Choose {--state zero} or {--state warm}.",
        )

    from elmo_cli.pretrained.find_model import resolve_model

    resolved = resolve_model(model_settings)
    if is_typed_text(given):
        check_options_of_typed_text("--split-sentences")
        tokenizer = choose_command_tokenizer(text_settings, resolved, [given])
        typed = _typed_text(given, tokenizer, settings)
        model = load_resolved_language_model(resolved, direction)
        _print_answers(typed, model, settings=settings, row_format=row_format)
        return
    source = source_of(given)
    source.check()
    opened = open_command_text(source, text_settings, resolved, lines_are_texts=True)
    text_settings.check_whole_records()
    model = load_resolved_language_model(resolved, direction)
    with _open_texts(opened, settings) as texts:
        _print_answers(texts, model, settings=settings, row_format=row_format)


def _one_input(given: str | None, file: str | None) -> str:
    """Return INPUT, which --file can give too."""
    if given is not None and file is not None:
        raise SettingsError(
            Template("{--file}: cannot be combined with INPUT"),
            remedy="Remove one of them.",
        )
    given = file if given is None else given
    if given is None:
        raise missing_error("INPUT")
    return given


def _check_options_of_gap() -> None:
    """Raise an error for an option that has no effect on a gap in a typed text."""
    ctx = click.get_current_context()
    for name in ("--direction", "--with-unknown"):
        if find_option(ctx, name).is_set(ctx):
            raise _gap_error(name)


def _gap_error(option: str) -> SettingsError:
    from elmo_cli.language_model.gaps import GAP

    return SettingsError(
        "{option}: cannot be combined with a gap ({gap})",
        remedy="Remove one of them.",
        option=option_named(option),
        gap=GAP,
    )


class _Texts(NamedTuple):
    """Texts of the argument or of a file, in lists that can be read without waiting."""

    columns: tuple[str, ...]
    """Names of the columns that name a text."""
    chunks: Iterable[list[Record]]
    are_from_file: bool
    numbers_sentences: bool = False
    """Name each sentence of a row by its number. With `each`, a row stays whole."""
    kept_columns: Mapping[str, object] = MappingProxyType({})
    """Columns of the input that the first row has."""


def _typed_text(
    text: str, tokenizer: Tokenizer, settings: PredictionSettings
) -> _Texts:
    from elmo_cli.language_model.gaps import GAP, cut_around_gaps

    tokens = cut_around_gaps(text, tokenizer.tokenize)
    record = _check_record(Record(text, tokens), settings)
    if GAP in record.tokens:
        _check_options_of_gap()
    return _Texts(columns=("line",), chunks=[[record]], are_from_file=False)


@contextmanager
def _open_texts(
    text_input: TextInput, settings: PredictionSettings
) -> Iterator[_Texts]:
    """Open the texts in a file."""
    from elmo_cli.language_model.gaps import cut_around_gaps
    from elmo_cli.language_model.scored_records import name_columns
    from elmo_cli.records.warnings.expected import UNKNOWN

    if not text_input.format.has_tokens:
        tokenize = partial(cut_around_gaps, tokenize=text_input.tokenizer.tokenize)
        text_input = replace(
            text_input, tokenizer=replace(text_input.tokenizer, tokenize=tokenize)
        )
    # The first word of a sentence follows a blank line. It has no tokens to predict.
    expected = UNKNOWN._replace(may_lack_tokens=not settings.each)
    id_rules = IdRules(number_if_repeated=True)
    numbers_sentences = text_input.splits_records and not settings.each
    with open_records(text_input, expected, id_rules=id_rules) as read:
        columns = name_columns(read, is_split=text_input.splits_lines)
        if numbers_sentences:
            columns = (*columns, "sentence_number")
        yield _Texts(
            columns=columns,
            chunks=parse_in_chunks(
                read.records,
                partial(_check_record, settings=settings),
                is_ready=read.is_ready,
                name_of=partial(name_of_record, text_input),
            ),
            are_from_file=True,
            numbers_sentences=numbers_sentences,
            kept_columns=read.example.columns,
        )


def _check_record(record: Record, settings: PredictionSettings) -> Record:
    """Return a record; raise an error if it has gaps that are not allowed."""
    from elmo_cli.language_model.gaps import GAP, check_gaps, mark_gaps

    if not settings.each and settings.samples is None:
        sentences = map(check_gaps, record.split())
        return record._replace(tokens=list(chain.from_iterable(sentences)))
    if GAP in mark_gaps(record.tokens):
        raise _gap_error("--each" if settings.each else "--samples")
    return record


def _print_answers(
    texts: _Texts,
    model: "LanguageModel",
    settings: PredictionSettings,
    row_format: str | None,
) -> None:
    from elmo_cli.language_model.prediction_run import (
        answer_columns,
        answer_rows,
        run_prediction,
    )

    is_table = texts.are_from_file and settings.samples is None
    as_rows = row_format is not None or is_table
    columns = [*texts.columns, *answer_columns(settings)]
    printer = open_row_printer(row_format, columns, texts.kept_columns)
    with printer if as_rows else nullcontext() as rows:

        def write(scored: "ScoredRecord[Answer]") -> None:
            if rows is not None:
                answer = list(answer_rows(scored.result, model))
                # An input without tokens is an error, and has no header then.
                if answer:
                    rows.write(answer, scored.record.columns, scored.names)
            else:
                for line in _lines_of(scored.result):
                    click.echo(line)

        summary = run_prediction(
            model,
            settings,
            chunks=texts.chunks,
            numbers_sentences=texts.numbers_sentences,
            write=write,
        )
    _say_summary(summary, settings)


def _say_summary(summary: "PredictionSummary", settings: PredictionSettings) -> None:
    """Say how many samples are empty, and which share of the words is unknown."""
    if summary.n_empty > 0:
        boundary = "starts" if settings.direction == "backward" else "ends"
        stderr.say(
            f"Empty continuations: {summary.n_empty} of {summary.n_samples}. The "
            f"sentence {boundary} there."
        )
    if not summary.unknown or settings.with_unknown:
        return
    mean = sum(summary.unknown) / len(summary.unknown)
    if mean < 0.001:
        return
    share = f"{mean:.1%}"
    if len(summary.unknown) > 1:
        share = f"On average, {share}"
    stderr.say(
        f"{share} of the probability is on <UNK>, which stands for all words "
        "outside the vocabulary. Use --with-unknown to show it."
    )


def _lines_of(answer: "Answer") -> Iterator[str]:
    from elmo_cli.language_model.next_words import Prediction
    from elmo_cli.language_model.samples import Samples

    if isinstance(answer, Samples):
        for sample in answer.samples:
            yield " ".join(sample)
    elif isinstance(answer, Prediction):
        for word, probability in answer.candidates:
            yield _candidate_line(word, probability)
    else:
        for token, candidates in zip(answer.tokens, answer.candidates, strict=True):
            yield token
            for word, probability in candidates:
                yield _candidate_line(word, probability)


def _candidate_line(word: str, probability: float) -> str:
    return f"{probability:8.4f}  {word}"
