"""Loading of the model and the tokenizer of a command."""

import gc
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import messages
from elmo_cli.cli.command import is_set
from elmo_cli.settings import ModelSettings, TextSettings

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.files import ModelFiles
    from elmo_cli.text.input_formats import TextInput
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
    from elmo_cli.language_model.scoring import LanguageModel

    return LanguageModel.from_engine(load_engine(settings, files))


def find_files(settings: ModelSettings, *, with_softmax: bool = False) -> "ModelFiles":
    """Find or download the files of a model, and print its name."""
    from elmo_cli.pretrained.registry import BUNDLED

    collect_garbage()
    files = settings.find_files(with_softmax=with_softmax)
    note = " (bundled, small; the published model is --model original)"
    messages.say(f"Model: {files.name}{note if files.name == BUNDLED else ''}")
    return files


def collect_garbage() -> None:
    """Start Python's collector, which `__main__` has stopped, for objects made from now on."""
    gc.freeze()
    gc.enable()


def open_text(source: "Source | str", text: TextSettings, model: ModelSettings) -> "TextInput":
    """Open a text, and decide its format and tokenizer before the model is loaded.

    The default tokenizer is the one of the model's training. Print it, or a warning if the options
    name another tokenizer.
    """
    from elmo_cli.text.input_formats import open_input

    check_language(text)
    trained, language = model.resolved.tokenizer, model.resolved.language
    is_chosen = is_set("--tokenizer", "--language")
    opened = open_input(source, text, trained=trained, language=language, is_chosen=is_chosen)
    _show_tokenizer(opened.tokenizer, opened.trained)
    return opened


def load_tokenizer(
    text: TextSettings, model: ModelSettings, source: str | None = None
) -> "Tokenizer":
    """Create the tokenizer of a source that others open, or of typed text; see `open_text`."""
    from elmo_cli.text.input_formats import find_format
    from elmo_cli.text.sources import Source

    check_language(text)
    trained, is_chosen = model.resolved.tokenizer, is_set("--tokenizer", "--language")
    source_format = None if source is None else find_format(Source(source), text.input_format)
    has_tokens = source_format is not None and source_format.has_tokens
    if has_tokens and is_chosen and text.tokenizer != "whitespace":
        raise click.UsageError(f"--tokenizer has no effect with the tokens of {source}")
    trained = None if has_tokens else trained
    tokenizer = text.choose_tokenizer(trained, model.resolved.language, is_chosen=is_chosen)
    _show_tokenizer(tokenizer, trained)
    return tokenizer


def _show_tokenizer(tokenizer: "Tokenizer", trained: str | None) -> None:
    name = tokenizer.name
    if trained is not None and not is_set("--tokenizer", "--language"):
        messages.say(f"Tokenizer: {trained}, as in the training of the model")
    elif trained not in (None, name):
        messages.say(f"Warning: the model was trained with --tokenizer {trained}, not {name}.")


def check_language(text: TextSettings) -> None:
    """Raise a `UsageError` for a language that would have no effect."""
    is_used = text.tokenizer != "whitespace" or text.split_sentences
    if text.language and (":" in text.tokenizer or not is_used):
        raise click.UsageError(f"--language has no effect with --tokenizer {text.tokenizer}")
