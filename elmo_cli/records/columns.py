"""Columns of tables: which ones are read, and the names of those that are kept."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message, literal, option_named
from elmo_cli.errors.wording import did_you_mean, with_question
from elmo_cli.options.column_names import column_names_text
from elmo_cli.options.text import (
    ALL_COLUMNS,
    DEFAULT_ID,
    TEXT_COLUMNS,
    TextSettings,
)

_MAX_NAMES: Final = 20
"""Number of columns that a message lists."""
_WORD_NAMES: Final = ("word", "words", "token")
"""Names of columns that probably have one word per row."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table that are read."""

    texts: tuple[str, ...]
    """Columns with a text or a list of tokens. The first one that a row has is read."""
    ids: tuple[str, ...]
    """Columns of the id. None if no ids are read, and several are parts of one id."""
    requires_id: bool
    """True if a row without an id is an error."""
    kept: tuple[str, ...]
    """Columns that the output repeats, or `ALL_COLUMNS`."""
    text_option: str
    """Option that names the column of the text, for messages."""
    is_usual: bool
    """True if the columns of the text are the usual ones, and none was named."""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Named columns that may be paths of nested fields, such as `data.text`."""
        names = (*self.texts, *self.ids, *self.kept)
        return tuple(name for name in names if "." in name)

    def others(self, names: Iterable[str], text: str) -> list[str]:
        """Return the columns that `ALL_COLUMNS` keeps: no text, and no whole id."""
        left_out = [text]
        if len(self.ids) == 1:
            left_out += self.ids
        return [name for name in names if name not in left_out]


def named_columns(
    settings: TextSettings, text_option: str = "--text-column"
) -> Columns:
    """Return the columns that the options name, or the usual ones."""
    texts: tuple[str, ...] = TEXT_COLUMNS
    if settings.word_column is not None:
        texts = (settings.word_column,)
        text_option = "--word-column"
    elif settings.text_column is not None:
        texts = (settings.text_column,)
    ids = settings.id_columns
    if settings.id_column is None:
        ids = (DEFAULT_ID,)
    return Columns(
        texts=texts,
        ids=ids,
        requires_id=settings.id_column is not None,
        kept=settings.repeated_columns,
        text_option=text_option,
        is_usual=settings.word_column is None and settings.text_column is None,
    )


def choose_columns(
    columns: Columns, names: Sequence[str], *, table: str, has_lists: bool = True
) -> Columns:
    """Return the columns that are read of a table with these columns.

    Raise an `InputError` with the name of the table if it lacks one of them, or has it
    several times. With `has_lists`, a column of tokens may have lists.
    """
    # A column of tokens comes before the text only if its cells are lists.
    candidates = columns.texts if has_lists else columns.texts[::-1]
    found = [name for name in candidates if name in names]
    if not found:
        expected = " or ".join(map(repr, columns.texts))
        problem = f"{table}: no column {expected}. {_listing(names)}"
        raise InputError(missing_text_error(problem, columns, names))
    text = found[0]
    ids = columns.ids
    for name in ids:
        if name not in names:
            if columns.requires_id:
                raise missing_column_error(
                    name, names, option_name="--id-column", table=table
                )
            ids = ()
    kept = columns.kept
    if kept == ALL_COLUMNS:
        kept = tuple(columns.others(names, text))
    for name in (text, *ids, *kept):
        if name not in names:
            raise missing_column_error(
                name, names, option_name="--keep-columns", table=table
            )
        if names.count(name) > 1:
            raise InputError(
                f"{table}: several columns {name!r}",
                remedy=f"{literal(_listing(names))}. Rename all but one of them.",
            )
    return replace(columns, texts=(text,), ids=ids, kept=kept)


def missing_text_error(problem: str, columns: Columns, names: Sequence[str]) -> Message:
    """Return the error for a table or a row that lacks the column of the text."""
    remedies = ["Choose one with {option}."]
    words = [name for name in names if name.lower() in _WORD_NAMES]
    if columns.is_usual and words:
        or_words = (
            "Choose one with {option}, or if each row is a word, use {--word-column} "
            "{word} and {--id-column} for its text."
        )
        remedies.insert(0, or_words)
    return Message(
        "{problem}",
        remedy=remedies,
        problem=problem,
        option=option_named(columns.text_option),
        word=words[0] if words else None,
    )


def missing_column_error(
    name: str, names: Sequence[str], option_name: str, table: str
) -> InputError:
    """Return the error of a table without the column that an option names."""
    choose = "Choose one with {option}."
    with_comma = [each for each in names if each.startswith(f"{name},")]
    if with_comma:
        choose = "A name with a comma needs quotes: {option} '{quoted}'."
    problem = f"{table}: no column {name!r}. {_listing(names)}"
    return InputError(
        "{problem}",
        remedy=choose,
        problem=with_question(problem, did_you_mean(name, names)),
        option=option_named(option_name),
        quoted=column_names_text(with_comma[:1]),
    )


def _listing(names: Sequence[str]) -> str:
    """Return a sentence without a full stop that lists the first names of columns."""
    listed = ", ".join(map(repr, names[:_MAX_NAMES])) or "missing"
    if len(names) > _MAX_NAMES:
        listed += ", ..."
    return f"The columns are {listed}"


def renamed_columns(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of kept columns in the output.

    A name that the output has already becomes `input_NAME`.
    """
    new_names: dict[str, str] = {}
    for name in names:
        new = name
        while new in taken or (new != name and new in names):
            new = f"input_{new}"
        new_names[name] = new
    return new_names
