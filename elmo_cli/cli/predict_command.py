"""`elmo predict`: the words that follow a text, or that fill the gap in it."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import in_chunks, print_rows
from elmo_cli.cli.command import command, option_group, receives, typed_options
from elmo_cli.errors import InputError
from elmo_cli.outputs.printed import RowWriter, json_line
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.input_formats import TextInput, open_records
from elmo_cli.text.records import Record, renamed_columns
from elmo_cli.text.sources import STANDARD_INPUT, Source
from elmo_cli.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from elmo_cli.language_model.prediction import Prediction, Substitutes
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.text.records import Sentence


_READING = (
    *("--input-format", "--text-column", "--id-column", "--keep-columns", "--paragraphs"),
    "--split-sentences",
)
"""Options that have no effect on a text that is an argument."""


@dataclass(frozen=True)
class _Choices:
    """Options for what is predicted and printed."""

    top: int = 10
    backward: bool = False
    with_unknown: bool = False
    each: bool = False
    n_samples: int | None = None
    temperature: float = 1
    max_words: int = 50
    seed: int = 0
    row_format: str | None = None
    as_json: bool = False


@command()
@click.argument("text", required=False)
@options.option(
    "--file",
    metavar="FILE",
    type=options.PATH,
    help="File with one text per line, or - for standard input, in place of TEXT.",
)
@options.count("--top", default=10, excludes="--sample", help="Number of words.")
@options.flag("--backward", help="Predict the word before TEXT.")
@options.flag(
    "--with-unknown",
    excludes="--sample or --each",
    help="Show <UNK>, which covers all words outside the vocabulary.",
)
@options.flag(
    "--each", excludes="--backward or --sample", help="Predict substitutes for each token."
)
@options.count("--sample", "n_samples", help="Sample N random continuations of TEXT.")
@options.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1,
    metavar="T",
    requires="--sample",
    help="Temperature of --sample: below 1, probable words become more probable.",
)
@options.count(
    "--max-words",
    default=50,
    requires="--sample",
    help="Maximum number of words that --sample adds.",
)
@options.count("--seed", least=0, default=0, requires="--sample", help="Seed of --sample.")
@option_group(
    "Output",
    options.format_option(),
    options.json_option("an object per text"),
    options.keep_columns_option,
)
@options.text_options("moses")
@options.language_model_options
@receives(choices=_Choices, model_settings=ModelSettings, text_settings=TextSettings)
def predict(
    text: str | None,
    file: str | None,
    choices: _Choices,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Predict the words that follow TEXT, or that fill the gap ___ in it.

    Prints the most probable words of the vocabulary with their probabilities; </S> is the end
    of the sentence. Both directions together fill a gap. With --each they predict substitutes
    for each token. With --file FILE, or - in place of TEXT for standard input, reads one text
    per line, or another input format. It prints a table with a header and a row per word: the
    id of the text, or the number of its line from 1; with --each the position of the token,
    from 0, the token, and whether the vocabulary contains it; the rank of the word, the word
    and its probability.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river ."
    $ elmo predict "The king" --sample 3 --temperature 0.7 --seed 1
    $ elmo predict - --each --top 3 --json < texts.txt
    $ elmo predict --file items.csv --text-column sentence --top 3 --format csv
    """
    path = _find_texts(text, file)
    opened: Tokenizer | TextInput
    if path is None:
        opened = loading.load_tokenizer(text_settings, model_settings)
    else:
        source = Source(path)
        source.check()
        opened = loading.open_text(source, text_settings, model_settings)
    model = loading.load_language_model(model_settings)
    with _open_texts(text or "", opened, each=choices.each) as texts:
        if choices.n_samples is not None:
            _print_samples(texts, model, choices)
        else:
            _print_predictions(texts, model, choices)


def _find_texts(text: str | None, file: str | None) -> str | None:
    """Return the file of the texts, or None if the argument is the text."""
    if (text is None) == (file is None):
        raise click.UsageError("expected TEXT or --file FILE")
    if text is not None and os.path.isfile(text):
        raise click.UsageError(
            f"{text}: TEXT is the text itself, but there is a file of this name. Use `elmo predict "
            f"--file {shlex.quote(text)}` to read the texts in it."
        )
    if text is not None and text != STANDARD_INPUT and typed_options(*_READING):
        raise click.UsageError(f"{typed_options(*_READING)[0]} requires --file FILE, or - as TEXT")
    return file or (STANDARD_INPUT if text == STANDARD_INPUT else None)


class _Text(NamedTuple):
    """Text to continue."""

    names: tuple[str | int, ...]
    """Values of the columns that name it."""
    record: Record


class _Texts(NamedTuple):
    """Texts of the argument or of a file."""

    columns: tuple[str, ...]
    """Names of the columns that name a text."""
    chunks: Iterator[list[_Text]]
    """Lists of texts that can be read without waiting."""
    are_from_file: bool


@contextmanager
def _open_texts(text: str, opened: Tokenizer | TextInput, *, each: bool) -> Iterator[_Texts]:
    """Open the text, given with its tokenizer, or the texts in a file."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps
    from elmo_cli.language_model.scoring import name_columns, record_names

    def check(numbered: tuple[int, Record]) -> _Text:
        number, record = numbered
        if each and GAP in record.tokens:
            raise InputError(f"--each goes without a gap ({GAP})")
        checked = record._replace(tokens=check_text(record.tokens))
        return _Text(record_names(number, record), checked)

    tokenizer = opened if isinstance(opened, Tokenizer) else opened.tokenizer
    tokenize = partial(cut_around_gaps, cut=tokenizer.tokenize)
    if isinstance(opened, Tokenizer):
        yield _Texts(("line",), iter([[check((1, Record(text, tokenize(text))))]]), False)
        return
    if not opened.format.has_tokens:
        opened = replace(opened, tokenizer=replace(tokenizer, tokenize=tokenize))
    with open_records(opened) as (records, is_ready, has_ids):
        columns = name_columns(has_ids=has_ids, is_split=tokenizer.splits_by is not None)
        name = f"{opened.source.name}, {opened.format.unit}"
        chunks = in_chunks(enumerate(records, start=1), check, is_ready, name)
        yield _Texts(columns, chunks, True)


def _print_samples(texts: _Texts, model: "LanguageModel", choices: _Choices) -> None:
    """Print random continuations of each text: sentences, rows or JSON."""
    from elmo_cli.language_model.prediction import SAMPLE_COLUMNS, sample_rows, sample_sentences

    as_rows = choices.row_format is not None
    with _rows(choices, [*texts.columns, *SAMPLE_COLUMNS], as_rows=as_rows) as rows:
        for text in chain.from_iterable(texts.chunks):
            samples = sample_sentences(
                model,
                text.record.tokens,
                choices.n_samples or 0,
                backward=choices.backward,
                temperature=choices.temperature,
                seed=choices.seed,
                max_words=choices.max_words,
            )
            if rows is not None:
                _write(rows, text, sample_rows(samples))
                continue
            for sample in samples:
                values = {"tokens": text.record.tokens, "sample": sample}
                line = _json_line(texts, text, values) if choices.as_json else " ".join(sample)
                click.echo(line)


def _print_predictions(texts: _Texts, model: "LanguageModel", choices: _Choices) -> None:
    """Print the most probable words: a list for people, rows or JSON."""
    from elmo_cli.language_model import prediction as prediction_rows
    from elmo_cli.language_model.prediction import Prediction, predict_words, substitute_words

    find: Callable[[list[Sentence]], Iterable[Prediction | Substitutes]] = (
        partial(substitute_words, model, top=choices.top)
        if choices.each
        else partial(
            predict_words,
            model,
            top=choices.top,
            backward=choices.backward,
            with_unknown=choices.with_unknown,
        )
    )
    columns = (
        prediction_rows.SUBSTITUTE_COLUMNS if choices.each else prediction_rows.PREDICTION_COLUMNS
    )
    shares = []
    as_rows = choices.row_format is not None or (texts.are_from_file and not choices.as_json)
    with _rows(choices, [*texts.columns, *columns], as_rows=as_rows) as rows:
        for chunk in texts.chunks:
            for text, answer in zip(
                chunk, find([text.record.tokens for text in chunk]), strict=True
            ):
                if rows is not None:
                    _write(rows, text, prediction_rows.rows_of(answer, model.vocabulary))
                elif choices.as_json:
                    click.echo(_json_line(texts, text, _json_values(answer)))
                else:
                    for line in _lines(answer):
                        click.echo(line)
                if isinstance(answer, Prediction) and answer.place != "gap":
                    shares.append(answer.unknown)
    if shares and not choices.with_unknown:
        share = f"{sum(shares) / len(shares):.1%}{' on average' if len(shares) > 1 else ''}"
        messages.say(
            f"<UNK>, all words outside the vocabulary, has {share}. Use --with-unknown to show it."
        )


def _rows(
    choices: _Choices, columns: Sequence[str], *, as_rows: bool
) -> AbstractContextManager[RowWriter | None]:
    """Return a writer of rows, or None if the answers are printed in another form."""
    return print_rows(choices.row_format, columns) if as_rows else nullcontext()


def _write(rows: RowWriter, text: _Text, answer_rows: Iterable[Sequence[object]]) -> None:
    rows.write(([*text.names, *row] for row in answer_rows), text.record.columns)


def _json_line(texts: _Texts, text: _Text, values: dict[str, Any]) -> str:
    """Return an answer as JSON, with the name of a text from a file and its other columns."""
    if not texts.are_from_file:
        return json_line(values)
    names = dict(zip(texts.columns, text.names, strict=True))
    new_names = renamed_columns(text.record.columns, [*names, *values])
    columns = {new_names[name]: value for name, value in text.record.columns.items()}
    return json_line(names | values | columns)


def _lines(answer: "Prediction | Substitutes") -> Iterator[str]:
    """Yield the lines of an answer for people."""
    from elmo_cli.language_model.prediction import Prediction

    is_prediction = isinstance(answer, Prediction)
    candidate_lists = [answer.candidates] if isinstance(answer, Prediction) else answer.candidates
    for index, candidates in enumerate(candidate_lists):
        if not is_prediction:
            yield answer.tokens[index]
        for word, probability in candidates:
            yield f"{probability:8.4f}  {word}"


def _json_values(answer: "Prediction | Substitutes") -> dict[str, Any]:
    """Return an answer as JSON values."""
    from elmo_cli.language_model.prediction import Prediction

    if isinstance(answer, Prediction):
        words = [candidate._asdict() for candidate in answer.candidates]
        values = {"tokens": answer.tokens, "place": answer.place}
        return {**values, "words": words, "unknown": answer.unknown}
    substitutes = [[candidate._asdict() for candidate in each] for each in answer.candidates]
    return {"tokens": answer.tokens, "words": substitutes}
