"""Texts of commands: they are opened, and their tokenizers are chosen and printed.

`runs/open_text_and_warn.py` opens the texts of Python functions.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import stderr
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message, option_named
from elmo_cli.options.text import TextSettings

if TYPE_CHECKING:
    from elmo_cli.pretrained.find_model import ResolvedModel
    from elmo_cli.records.input_format import TextInput
    from elmo_cli.text.sources import Source
    from elmo_cli.text.tokenizers import Tokenizer

_TOKENIZER = "elmo_cli.tokenizer"
"""Key in `Context.meta` of the tokenizer that is still to be printed."""


def open_command_text(
    source: "Source | str",
    text_settings: TextSettings,
    model: "ResolvedModel",
    *,
    lines_are_texts: bool = False,
    splits_words: bool = False,
    reads_places: bool = False,
    is_new: bool = False,
) -> "TextInput":
    """Open a text, and decide its format and tokenizer.

    Args:
        source: The text.
        text_settings: Options of the text.
        model: Model, whose training and language count.
        lines_are_texts: Tokenize lines like texts in tables, because words are asked
            for.
        splits_words: Tokenize the text of a list of words.
        reads_places: Read the places of annotated words in tables.
        is_new: The model has no training yet.
    """
    from elmo_cli.records.open_input import open_input

    opened = open_input(
        source,
        text_settings,
        trained=None if is_new else model.tokenizer,
        language=None if is_new else model.language,
        lines_are_texts=lines_are_texts,
        splits_words=splits_words,
        reads_places=reads_places,
    )
    is_typed = not isinstance(source, str) and source.is_open_text
    keep_tokenizer(opened.tokenizer, text_settings, is_typed=is_typed)
    return opened


def choose_command_tokenizer(
    text_settings: TextSettings,
    model: "ResolvedModel",
    texts: Sequence[str],
    *,
    are_typed: bool = True,
) -> "Tokenizer":
    """Return the tokenizer of texts that show whether they are raw.

    `are_typed` is False if they come from standard input.
    """
    from elmo_cli.text.choose_tokenizer import choose_tokenizer

    tokenizer = choose_tokenizer(
        text_settings,
        "texts",
        texts,
        trained=model.tokenizer,
        model_language=model.language,
    )
    keep_tokenizer(tokenizer, text_settings, is_typed=are_typed)
    return tokenizer


def keep_tokenizer(
    tokenizer: "Tokenizer", text_settings: TextSettings, *, is_typed: bool = False
) -> None:
    """Keep a tokenizer that was chosen for `say_tokenizer`.

    Raise a `SettingsError` for a language that has no effect.
    """
    has_language = ":" in tokenizer.name or tokenizer.splits_by is not None
    names_language = (
        text_settings.tokenizer is not None and ":" in text_settings.tokenizer
    )
    if text_settings.language and (names_language or not has_language):
        name: str | Message = f"the tokenizer {tokenizer.choice or tokenizer.name}"
        if text_settings.names_tokenizer:
            name = option_named(f"--tokenizer {text_settings.tokenizer}")
        raise SettingsError(
            "{--language}: has no effect with {tokenizer}",
            remedy="Remove {--language}.",
            tokenizer=name,
        )
    click.get_current_context().meta[_TOKENIZER] = (tokenizer, is_typed)


def say_tokenizer() -> None:
    """Print the tokenizer that the text or the model has chosen, and its warning.

    It is printed once: where the model is loaded, or before an error of the run. For a
    text that was typed, only an unusual choice is printed, unless with -v.
    """
    kept = click.get_current_context().meta.pop(_TOKENIZER, None)
    if kept is None:
        return
    from elmo_cli.text.tokenizers import WHITESPACE

    tokenizer, is_typed = kept
    is_usual = is_typed and tokenizer.name != WHITESPACE.name
    if tokenizer.choice and (not is_usual or stderr.verbosity() > 0):
        stderr.say(f"Tokenizer: {tokenizer.choice}")
    if tokenizer.warning is not None:
        stderr.warn(tokenizer.warning)
