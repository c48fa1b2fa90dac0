"""Rows of tables, and the record of a row.

A row has a text or a list of tokens, and optionally an id. See `Columns` for its
columns.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.options.text import ALL_COLUMNS, TEXT_COLUMN, TOKENS_COLUMN
from elmo_cli.records.annotated_places import find_places
from elmo_cli.records.columns import Columns, missing_text_error, named_columns
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.record import LIST_OF_REGIONS, Record, join_id
from elmo_cli.records.record_of_text import record_of_text
from elmo_cli.records.words import record_of_words
from elmo_cli.text.alignment import locate_tokens
from elmo_cli.text.choose_tokenizer import tokenizer_of_tokens
from elmo_cli.text.line_reader import Line

MAX_LEVELS: Final = 30
"""Levels of lists and objects in a kept column.

Arrow reads Parquet with up to 100 levels, and a list in a list takes two or three.
"""


class InputRow(NamedTuple):
    """Row of a table, or the reason why it is none."""

    start: int
    """Number of its first line, or of the row, from 1."""
    fields: Mapping[str, Any] = {}
    """Values by the names of their columns."""
    problem: str | Message | None = None
    """What is wrong with a row that has no fields."""
    unreadable: str | None = None
    """Error of a line that is not UTF-8, with the name of the file."""


class _RowId(NamedTuple):
    """Id of a row, or what is wrong with it."""

    text: str | None = None
    """The id as text; None if the row has none."""
    is_integer: bool = False
    """True if the row has an integer, whose text this is."""
    problem: str | None = None


class RowFormat(InputFormat):
    """Format whose records are rows with named fields."""

    tokens_are_stored = True
    has_columns = True

    def rows(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[InputRow]:
        """Yield the rows of lines."""
        raise NotImplementedError

    def parse(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[Record]:
        """Yield the records of the rows."""
        columns = named_columns(text_input.settings, text_input.text_option)
        for row in self.rows(lines, text_input):
            yield record_of_row(row, columns, text_input)


def record_of_row(row: InputRow, columns: Columns, text_input: TextInput) -> Record:
    """Return the record of a row, with an error if the row is invalid."""
    if row.unreadable is not None:
        return Record("", [], error=row.unreadable, start=row.start)
    if row.problem is not None:
        return _invalid_record(row, row.problem, text_input)
    fields = _flattened(row.fields, columns)
    row_id = _find_row_id(fields, columns)
    if row_id.problem is not None:
        return _invalid_record(row, row_id.problem, text_input)
    name = _find_text_column(fields, columns)
    if name is None:
        expected = " or ".join(map(repr, columns.texts))
        found = f"expected a field {expected}, found {_shown(fields)}"
        return _invalid_record(
            row, missing_text_error(found, columns, [*fields]), text_input
        )
    value = fields[name]
    kept = _kept_columns(fields, name, columns)
    unwritable = _find_unwritable(kept)
    if unwritable is not None:
        return _invalid_record(row, unwritable, text_input)
    try:
        record = _record_of_value(value, name, text_input)
        if record is not None and text_input.reads_places:
            record = _with_places(record, fields, name)
    except InputError as error:
        in_field = Message("field {name}: {error}", name=repr(name), error=error)
        return _invalid_record(row, in_field, text_input)
    if record is None:
        found = f"found {repr(value)[:60]}"
        problem = f"field {name!r}: expected a text or a list of tokens, {found}"
        return _invalid_record(row, problem, text_input)
    if text_input.settings.word_column is not None:
        record = record._replace(fields=fields)
    return record._replace(
        id=row_id.text,
        id_is_integer=row_id.is_integer,
        columns=kept,
        start=row.start,
    )


def _record_of_value(
    value: object, column: str, text_input: TextInput
) -> Record | None:
    """Return the record of a text or a list of tokens in a column; None for others.

    Raise an `InputError` if its tokens have no place in the text.
    """
    if value is None:
        value = ""
    if isinstance(value, str) and is_text(value):
        if text_input.settings.word_column is not None:
            # Words are tokenized as a group.
            return Record(value, [])
        tokenizer = text_input.tokenizer
        if column == TOKENS_COLUMN:
            # Text in a column of this name has its tokens between spaces.
            tokenizer = tokenizer_of_tokens(text_input.settings, tokenizer)
        return record_of_text(value, tokenizer)
    if not isinstance(value, list):
        return None
    if not all(isinstance(token, str) for token in value):
        return None
    joined = " ".join(value)
    if not is_text(joined):
        return None
    if text_input.tokenizer.clean is not None:
        raise InputError(LIST_OF_REGIONS)
    if text_input.splits_words:
        return record_of_words(value, text_input.tokenizer)
    return Record(joined, value)


def _with_places(record: Record, fields: Mapping[str, Any], column: str) -> Record:
    """Return a record with the places of its annotated words.

    Raise an `InputError` if they are in a text with other tokens, or not complete.
    """
    places = find_places(fields, text_column=column, text=record.text)
    if places and places[0].text != record.text:
        locate_tokens(places[0].text, record.tokens)
    return record._replace(places=places)


def _kept_columns(
    fields: Mapping[str, Any], text_column: str, columns: Columns
) -> Mapping[str, object]:
    if columns.kept == ALL_COLUMNS:
        return {name: fields[name] for name in columns.others(fields, text_column)}
    return {name: fields.get(name) for name in columns.kept}


def _find_unwritable(columns: Mapping[str, object]) -> str | None:
    """Return the problem of a value that no output file can hold, or None."""
    for name, value in columns.items():
        if not is_text(name):
            return f"field {name!a}: expected a name in Unicode"
        problem = _problem_of_nested(value)
        if problem is not None:
            return f"field {name!r}: {problem}"
    return None


def _problem_of_nested(value: object, depth: int = 0) -> str | None:
    """Return what is wrong with the texts and levels of a value of JSON, or None."""
    if isinstance(value, str):
        return None if is_text(value) else f"expected Unicode, found {value[:60]!a}"
    if not isinstance(value, (list, dict)):
        return None
    if depth == MAX_LEVELS:
        return f"more than {MAX_LEVELS} levels of lists and objects"
    nested = [*value, *value.values()] if isinstance(value, dict) else value
    for each in nested:
        problem = _problem_of_nested(each, depth + 1)
        if problem is not None:
            return problem
    return None


def is_text(value: object) -> bool:
    """Return whether a value is Unicode text. JSON can also encode lone surrogates."""
    if not isinstance(value, str):
        return False
    return value.isascii() or value.encode("utf-8", "ignore").decode() == value


def _invalid_record(row: InputRow, problem: object, text_input: TextInput) -> Record:
    return Record(
        "", [], error=text_input.error_at(row.start, problem), start=row.start
    )


def _flattened(fields: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the fields of a row with nested ones under their paths.

    Objects in a list of tokens become texts. An id such as 1.0 is an integer: pandas
    writes it where another id is missing.
    """
    nested = {}
    for path in columns.paths:
        nested.update(_find_nested(fields, path))
    fields = {**nested, **fields}
    for name in columns.texts:
        value = fields.get(name)
        if isinstance(value, list):
            fields[name] = texts_of_tokens(value, fields.get(TEXT_COLUMN))
            break
    for name in columns.ids:
        part = fields.get(name)
        if isinstance(part, float) and part.is_integer():
            fields[name] = int(part)
    return fields


def texts_of_tokens(tokens: list[Any], text: object = None) -> list[Any]:
    """Return the texts of tokens that are objects; other tokens as they are.

    Prodigy's objects have a `text`, and spaCy's the `start` and `end` of their
    characters in the text of the row.
    """
    if dict not in map(type, tokens):
        return tokens
    texts = []
    for token in tokens:
        if isinstance(token, dict) and "text" in token:
            texts.append(token["text"])
        elif isinstance(token, dict) and isinstance(text, str) and _has_place(token):
            texts.append(text[token.get("start") : token.get("end")])
        else:
            texts.append(token)
    return texts


def _has_place(token: Mapping[str, Any]) -> bool:
    """Return whether the `start` and `end` of a token are numbers or missing."""
    ends = (token.get("start"), token.get("end"))
    return all(end is None or isinstance(end, int) for end in ends)


def _find_nested(fields: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a nested field under its path; nothing if the row lacks it."""
    value: Any = fields
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return {}
        value = value[name]
    return {path: value}


def _find_text_column(fields: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the column of the text of a row: the first list, or else the last text."""
    names = [name for name in columns.texts if name in fields]
    for name in names:
        if isinstance(fields[name], list):
            return name
    return names[-1] if names else None


def _find_row_id(fields: Mapping[str, Any], columns: Columns) -> _RowId:
    """Return the id of a row: the value of one column, or those of several, joined."""
    parts: list[str] = []
    is_integer = False
    for name in columns.ids:
        value = fields.get(name)
        if value is None:
            if columns.requires_id:
                return _RowId(problem=f"field {name!r}: expected an id, found none")
            return _RowId()
        # The truth values of JSON are integers of Python, too.
        is_integer = type(value) is int
        if not is_integer and not is_text(value):
            found = f"found {repr(value)[:60]}"
            expected = "expected a text or an integer"
            return _RowId(problem=f"field {name!r}: {expected}, {found}")
        parts.append(str(value))
    if not parts:
        return _RowId()
    # Several integers are joined to a text, such as "3.7".
    return _RowId(join_id(parts), is_integer and len(parts) == 1)


def _shown(fields: Mapping[str, Any]) -> str:
    """Return the names of the fields of a row for a message, nested ones too."""
    names = [*fields]
    for name, value in fields.items():
        if isinstance(value, dict):
            names += [f"{name}.{key}" for key in value]
    return ", ".join(map(repr, names))[:60] or "none"
