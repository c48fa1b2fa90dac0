"""Columns of tables: which are read, and the record of a row."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from elmo_cli.errors.exceptions import is_offered
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.options.text import ALL_COLUMNS, NO_ID, TOKENS_COLUMN, TextSettings
from elmo_cli.records.record import NumericId, Record, Span
from elmo_cli.records.words import record_of_words
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


def renamed_columns(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of kept columns in the output: `input_NAME` where it has such a column."""
    new_names: dict[str, str] = {}
    for name in names:
        new = name
        while new in taken or (new != name and new in names):
            new = f"input_{new}"
        new_names[name] = new
    return new_names


def row_record(
    row: Mapping[str, Any], settings: TextSettings, tokenizer: Tokenizer
) -> tuple[Record, str | None]:
    """Return the record of a row, and its error."""
    row, name = normal_row(row, settings)
    identifier, error = _row_id(row, settings)
    if name is None and error is None:
        names = " or ".join(map(repr, settings.text_columns))
        remedy = (
            f"Choose one with {settings.text_option}{or_word_column([*row], settings)}."
        )
        error = f"expected a field {names}, found {_shown_fields(row)}. {remedy}"
    if name is None or error is not None:
        return Record("", [], identifier), error
    text = row[name]
    is_list = isinstance(text, list)
    if name == TOKENS_COLUMN and settings.tokenizer is None and not is_list:
        tokenizer = replace(WHITESPACE, splits_by=tokenizer.splits_by)
    if text is None or _is_text(text):
        record = Record(text or "", [], identifier)
        if settings.word_column is None:  # Words are tokenized as a group.
            record = _split_text(record, tokenizer)
    elif is_list and all(map(_is_text, text)):
        record = Record(" ".join(text), text, identifier)
        record = (
            record_of_words(record, text, tokenizer)
            if settings.splits_words
            else record
        )
    else:
        error = f"field {name!r}: expected a text or a list of tokens, found {repr(text)[:60]}"
        return Record("", [], identifier), error
    if not settings.keep_columns:
        return record, None
    columns: Iterable[str] = settings.keep_columns
    if settings.keep_columns == ALL_COLUMNS:
        columns = [each for each in row if each not in (name, settings.id_name)]
    return record._replace(columns={each: row.get(each) for each in columns}), None


def or_word_column(names: Sequence[str], settings: TextSettings) -> str:
    """Return advice for a table that has a column of words instead of texts, or an empty text."""
    name = next(
        (each for each in names if each.lower() in ("word", "words", "token")), None
    )
    is_named = settings.text_column is not None or settings.word_column is not None
    if name is None or is_named or not is_offered("--word-column"):
        return ""
    return f", or if each row is a word, use --word-column {name} and --id-column for its text"


def _row_id(
    row: Mapping[str, Any], settings: TextSettings
) -> tuple[str | None, str | None]:
    name = settings.id_name
    identifier = None if name is None else row.get(name)
    if type(identifier) is int:
        identifier = NumericId(identifier)
    if identifier is not None and not _is_text(identifier):
        return (
            None,
            f"field {name!r}: expected a text or an integer, found {repr(identifier)[:60]}",
        )
    if identifier is None and settings.id_column:
        return None, f"field {name!r}: expected an id, found none"
    return identifier, None


def _split_text(record: Record, tokenizer: Tokenizer) -> Record:
    """Add the tokens of the text of a record, and its sentences if there are several."""
    sentences = tokenizer.split_sentences(record.text)
    if len(sentences) < 2:
        return record._replace(tokens=tokenizer.tokenize(record.text))
    tokens = list(map(tokenizer.tokenize, sentences))
    spans = list(map(Span, sentences, map(len, tokens)))
    return record._replace(tokens=list(chain.from_iterable(tokens)), sentences=spans)


def normal_row(
    row: Mapping[str, Any], settings: TextSettings
) -> tuple[Mapping[str, Any], str | None]:
    """Return a row with its nested fields under their paths, and the name of its text, if any.

    The column `tokens` is read if it is a list; the tokens of Prodigy are objects with a `text`.
    An id such as 1.0 is an integer: pandas writes it where another id is missing.
    """
    row = {
        **{
            path: value
            for path in settings.paths
            for value in _nested_fields(row, path)
        },
        **row,
    }
    names = [name for name in settings.text_columns if name in row]
    lists = [name for name in names if isinstance(row[name], list)]
    for name in lists[:1]:
        if all(isinstance(each, dict) and "text" in each for each in row[name]):
            row[name] = [each["text"] for each in row[name]]
    identifier = None if settings.id_name is None else row.get(settings.id_name)
    if isinstance(identifier, float) and identifier.is_integer():
        row[str(settings.id_name)] = int(identifier)
    return row, next(iter(lists or names[-1:]), None)


def _nested_fields(row: Mapping[str, Any], path: str) -> list[Any]:
    """Return the value of a nested field in a list, which is empty without such a field."""
    values: list[Any] = [row]
    for name in path.split("."):
        values = [
            each[name] for each in values if isinstance(each, dict) and name in each
        ]
    return values


def _shown_fields(row: Mapping[str, Any]) -> str:
    nested = (
        f"{name}.{key}"
        for name in row
        if isinstance(row[name], dict)
        for key in row[name]
    )
    return ", ".join(map(repr, [*row, *nested]))[:60] or "none"


def _is_text(value: object) -> bool:
    """Return whether a value is a valid Unicode text. JSON can also encode lone surrogates."""
    return isinstance(value, str) and value.encode("utf-8", "ignore").decode() == value


_MAX_NAMES: Final = 20


class TableError(ValueError):
    """Error of a whole table, without the name of the file."""


def choose_columns(
    names: Sequence[str], settings: TextSettings, *, has_lists: bool = True
) -> TextSettings:
    """Return settings that name the columns of a table that are read, each of which it has once."""
    # A column of tokens comes before the text only if its cells are lists.
    text_columns = settings.text_columns[:: 1 if has_lists else -1]
    text = next((name for name in text_columns if name in names), None)
    shown = ", ".join(map(repr, names[:_MAX_NAMES])) + (
        ", ..." if names[_MAX_NAMES:] else ""
    )
    listing = f"The columns are {shown or 'missing'}."
    if text is None:
        text_names = " or ".join(map(repr, settings.text_columns))
        option = "--word-column" if settings.word_column else settings.text_option
        remedy = f"Choose one with {option}{or_word_column(names, settings)}."
        raise TableError(f"no column {text_names}. {listing} {remedy}")

    def missing(name: str, option: str) -> TableError:
        problem = f"no column {name!r}. {listing}{did_you_mean(name, names)}"
        return TableError(f"{problem} Choose one with {option}.")

    id_name = settings.id_name if settings.id_name in names else None
    if settings.id_column and id_name is None:
        raise missing(settings.id_column, "--id-column")
    kept_columns = settings.keep_columns
    if kept_columns == ALL_COLUMNS:
        kept_columns = tuple(name for name in names if name not in (text, id_name))
    for name in (text, *([] if id_name is None else [id_name]), *kept_columns):
        if name not in names:
            raise missing(name, "--keep-columns")
        if names.count(name) > 1:
            raise TableError(
                f"several columns {name!r}. {listing} Rename all but one of them."
            )
    id_column = NO_ID if id_name is None else settings.id_column
    text_column = text if settings.word_column is None else None
    return replace(
        settings,
        text_column=text_column,
        id_column=id_column,
        keep_columns=kept_columns,
    )
