"""Text inputs: a source with its format and its tokenizer."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.text import DEFAULT_SETTINGS, TextSettings
from elmo_cli.records.delimited import column_names
from elmo_cli.records.formats import (
    JSON_ARRAY,
    JSON_LINES,
    TEXT,
    InputFormat,
    find_format,
)
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, chosen_tokenizer


@dataclass(frozen=True)
class TextInput:
    """Input that can be read: its source, and everything that was decided about it."""

    source: Source
    settings: TextSettings
    format: InputFormat
    tokenizer: Tokenizer
    trained: str | None = None
    """Tokenizer of the model's training text, if it is known and the format has no tokens."""

    @property
    def splits_lines(self) -> bool:
        """True if each sentence of a line is a record."""
        return self.tokenizer.splits_by is not None and not self.format.has_columns

    @property
    def splits_records(self) -> bool:
        """True if a record may have several sentences."""
        return self.tokenizer.splits_by is not None and self.format.has_columns


def open_input(
    source: Source | IO[str] | str | Path,
    settings: TextSettings = DEFAULT_SETTINGS,
    tokenizer: Tokenizer | None = None,
    *,
    trained: str | None = None,
    language: str | None = None,
    default: str = WHITESPACE.name,
) -> TextInput:
    """Open an input and decide its format and its tokenizer.

    If neither `tokenizer` nor `settings` name one, `trained` is used, with which the model was
    trained; else `moses` for a format with columns, whose texts are raw, or else `default`.
    """
    source = source if isinstance(source, Source) else Source(source)
    input_format = find_format(source, settings.input_format)
    trained = None if input_format.has_tokens else trained
    with_rows = _with_token_rows(settings, source, input_format)
    settings, trained = with_rows, trained if with_rows == settings else None
    if tokenizer is None:
        default = default_tokenizer(input_format, default)
        tokenizer = chosen_tokenizer(settings, language, default, trained)
    else:
        settings = replace(settings, tokenizer=tokenizer.name)
    if input_format.has_tokens and tokenizer.splits_by is not None:
        raise SettingsError(
            f"--split-sentences requires text or a table, found {input_format.name}"
        )
    if input_format.has_tokens and tokenizer.name != WHITESPACE.name:
        raise SettingsError(
            f"--tokenizer has no effect with {input_format.name}, which has tokens"
        )
    if tokenizer.splits_by is not None and input_format.name == TEXT.name:
        input_format = replace(input_format, unit="sentence")
    return TextInput(source, settings, input_format, tokenizer, trained)


def names_in_head(
    source: Source, input_format: InputFormat, settings: TextSettings = DEFAULT_SETTINGS
) -> list[str]:
    """Return the columns of a table, or the fields of its first object; none if it has no head."""
    head = (source.head or source.first_line).decode("utf-8-sig", "replace")
    if input_format.delimiter is not None:
        return column_names(
            head.splitlines(keepends=True), settings, input_format.delimiter
        )
    with suppress(TypeError, ValueError, RecursionError):  # Errors are reported later.
        if input_format in (JSON_LINES, JSON_ARRAY):
            return [*json.JSONDecoder().raw_decode(head.lstrip("[ \r\n"))[0]]
    return []


def _with_token_rows(
    settings: TextSettings, source: Source, input_format: InputFormat
) -> TextSettings:
    """Return settings that join the rows of `elmo surprisal`, one per token, to their texts."""
    if settings.text_column is not None or settings.word_column is not None:
        return settings
    names = names_in_head(source, input_format, settings)
    if "token" not in names or not any(name.startswith("surprisal") for name in names):
        return settings
    id_column = settings.id_column or ("line" if "line" in names else None)
    tokenizer = settings.tokenizer or WHITESPACE.name
    return replace(
        settings, word_column="token", id_column=id_column, tokenizer=tokenizer
    )


def default_tokenizer(input_format: InputFormat, default: str = WHITESPACE.name) -> str:
    """Return the tokenizer of a format: tables have raw text, other formats have `default`."""
    of_text = "moses" if input_format.has_columns else default
    return WHITESPACE.name if input_format.has_tokens else of_text
