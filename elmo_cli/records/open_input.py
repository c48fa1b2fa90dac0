"""Opening of an input: its format and its tokenizer are decided here, once."""

from dataclasses import replace
from pathlib import Path
from typing import IO

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS, TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.records.columns_in_text import check_file_is_text
from elmo_cli.records.first_texts import read_first_texts
from elmo_cli.records.formats import find_format
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.text.choose_tokenizer import Content, choose_tokenizer
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


def open_input(
    source: Source | IO[str] | str | Path,
    settings: TextSettings = DEFAULT_TEXT_SETTINGS,
    tokenizer: Tokenizer | None = None,
    *,
    trained: str | None = None,
    language: str | None = None,
    lines_are_texts: bool = False,
    splits_words: bool = False,
    reads_places: bool = False,
) -> TextInput:
    """Open an input and decide its format and its tokenizer.

    Args:
        source: Path, `-`, an open text file, or a source.
        settings: Options of the text.
        tokenizer: Tokenizer of the texts. None chooses it by `choose_tokenizer`, to
            which the first records are shown.
        trained: Name of the tokenizer of the model's training, if it is known.
        language: Code of the model's language, if it is known.
        lines_are_texts: Tokenize lines like texts in tables, because words are asked
            for.
        splits_words: Tokenize the text of a list of words, in place of reading the list
            as tokens.
        reads_places: Read the places of annotated words in tables.
    """
    if not isinstance(source, Source):
        source = Source(source)
    with source.closed_after_error():
        input_format = find_format(source, settings.input_format)
        if input_format.is_plain and settings.input_format is None:
            check_file_is_text(source)
        if input_format.has_tokens:
            trained = None
        # Only a regular file has a head, and an empty file has any format.
        format_is_guess = (
            input_format.is_plain and settings.input_format is None and not source.head
        )
        text_input = TextInput(
            source=source,
            settings=settings,
            format=input_format,
            tokenizer=WHITESPACE,
            trained=trained,
            format_is_guess=format_is_guess,
            splits_words=splits_words,
            # A row that is a word has no place in its text.
            reads_places=reads_places and settings.word_column is None,
        )
        if tokenizer is None:
            first_texts: list[str] = []
            if settings.tokenizer == AUTO and not input_format.has_tokens:
                first_texts = read_first_texts(text_input)
            tokenizer = choose_tokenizer(
                settings,
                content_of(input_format, lines_are_texts=lines_are_texts),
                first_texts,
                trained=trained,
                model_language=language,
            )
        else:
            text_input = replace(
                text_input, settings=replace(settings, tokenizer=tokenizer.name)
            )
        if input_format.has_tokens:
            _check_keeps_tokens(tokenizer, input_format)
        return replace(text_input, tokenizer=tokenizer)


def _check_keeps_tokens(tokenizer: Tokenizer, input_format: InputFormat) -> None:
    """Raise a `SettingsError` if a tokenizer would change the tokens of a format."""
    if tokenizer.splits_by is not None:
        raise SettingsError(
            "{--split-sentences True}: requires text or a table, found {name}",
            remedy="Remove {--split-sentences True}.",
            name=input_format.name,
        )
    if tokenizer.name != WHITESPACE.name:
        raise SettingsError(
            "{--tokenizer}: has no effect with {name}, which has tokens",
            remedy="Remove {--tokenizer}.",
            name=input_format.name,
        )


def content_of(input_format: InputFormat, *, lines_are_texts: bool = False) -> Content:
    """Return what is tokenized in a format, for `choose_tokenizer`."""
    if input_format.has_tokens:
        return "tokens"
    if input_format.has_columns or lines_are_texts:
        return "texts"
    return "lines"
