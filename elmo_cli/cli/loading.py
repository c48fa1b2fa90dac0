"""Loading of the model and the tokenizer of a command."""

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import messages
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.pretrained.files import ModelFiles
    from elmo_cli.records.input_format import TextInput
    from elmo_cli.text.choose_tokenizer import Content
    from elmo_cli.text.sources import Source
    from elmo_cli.text.tokenizers import Tokenizer


def load_embedder(settings: ModelSettings) -> "ElmoEmbedder":
    """Load a model."""
    files = find_files(settings)

    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.engine import load_engine

    return ElmoEmbedder.from_engine(load_engine(settings, files))


def load_language_model(settings: ModelSettings) -> "LanguageModel":
    """Load a model with its softmax."""
    files = find_files(settings, with_softmax=True)

    from elmo_cli.engine import load_engine
    from elmo_cli.language_model.language_model import LanguageModel

    return LanguageModel.from_engine(load_engine(settings, files))


def find_files(settings: ModelSettings, *, with_softmax: bool = False) -> "ModelFiles":
    """Find or download the files of a model, and print its name."""
    from elmo_cli.pretrained.find import files_of
    from elmo_cli.pretrained.registry import BUNDLED

    collect_garbage()
    files = files_of(settings, with_softmax=with_softmax)
    note = ""
    if files.name == BUNDLED:
        note = " (bundled, small; the published model is --model original)"
    messages.say(f"Model: {files.name}{note}")
    return files


def collect_garbage() -> None:
    """Start Python's collector, which `__main__` has stopped.

    It only looks at objects that are made from now on.
    """
    gc.freeze()
    gc.enable()


def open_text(
    source: "Source | str",
    text: TextSettings,
    model: ModelSettings,
    *,
    lines_are_texts: bool = False,
    is_new: bool = False,
) -> "TextInput":
    """Open a text, and decide its format and tokenizer.

    Args:
        source: The text.
        text: Options of the text.
        model: Model, whose training and language count.
        lines_are_texts: Tokenize lines like texts in tables, because words are asked
            for.
        is_new: The model has no training yet.
    """
    from elmo_cli.pretrained.find import ResolvedModel, resolve_model
    from elmo_cli.records.text_input import open_input

    resolved = ResolvedModel() if is_new else resolve_model(model)
    opened = open_input(
        source,
        text,
        trained=resolved.tokenizer,
        language=resolved.language,
        lines_are_texts=lines_are_texts,
    )
    _check_language(opened.tokenizer, text)
    return opened


def load_tokenizer(
    text: TextSettings,
    model: ModelSettings,
    texts: Sequence[str],
    content: "Content" = "texts",
) -> "Tokenizer":
    """Return the tokenizer of typed texts, or of files that others open.

    Args:
        text: Options of the text.
        model: Model, whose training and language count.
        texts: Typed texts, or first texts of the first file, which show whether they
            are raw.
        content: What is tokenized.
    """
    from elmo_cli.pretrained.find import resolve_model
    from elmo_cli.text.choose_tokenizer import choose_tokenizer

    resolved = resolve_model(model)
    tokenizer = choose_tokenizer(
        text,
        content,
        texts,
        trained=None if content == "tokens" else resolved.tokenizer,
        model_language=resolved.language,
    )
    _check_language(tokenizer, text)
    return tokenizer


def _check_language(tokenizer: "Tokenizer", text: TextSettings) -> None:
    """Raise a `UsageError` for a language that has no effect."""
    has_language = ":" in tokenizer.name or tokenizer.splits_by is not None
    names_language = text.tokenizer is not None and ":" in text.tokenizer
    if text.language and (names_language or not has_language):
        name = text.tokenizer if text.names_tokenizer else tokenizer.name
        raise click.UsageError(f"--language has no effect with --tokenizer {name}")
