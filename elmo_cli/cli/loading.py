"""Loading of the model and the tokenizer of a command."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import messages
from elmo_cli.cli.command import is_set
from elmo_cli.errors import InputError
from elmo_cli.settings import ModelSettings, TextSettings

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.files import ModelFiles
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
    with usage_errors():
        files = settings.find_files(with_softmax=with_softmax)
    note = " (bundled, small; the published model is --model original)"
    messages.say(f"Model: {files.name}{note if files.name == BUNDLED else ''}")
    return files


def collect_garbage() -> None:
    """Start Python's collector, which `__main__` has stopped, for objects made from now on."""
    gc.freeze()
    gc.enable()


def load_tokenizer(text: TextSettings, model: ModelSettings, source: object = None) -> "Tokenizer":
    """Create the tokenizer of the options, or else of the model; see `choose_tokenizer`."""
    check_language(text)
    text = choose_tokenizer(text, model, source)
    with usage_errors():
        return text.make_tokenizer(model.resolved.language)


def choose_tokenizer(
    text: TextSettings, model: ModelSettings, source: object = None
) -> TextSettings:
    """Return the options of a text, with the tokenizer of the model's training as the default.

    Print the tokenizer, or a warning if the options name another tokenizer.

    Args:
        text: Options of the text.
        model: Options of the model.
        source: Input file, whose format may have tokens. None is typed text.
    """
    trained = model.resolved.tokenizer
    if trained is None or (source is not None and _has_tokens(source, text)):
        return text
    if not is_set("--tokenizer", "--language"):
        messages.say(f"Tokenizer: {trained}, as in the training of the model")
        return replace(text, tokenizer=trained)
    with usage_errors():
        chosen = text.make_tokenizer(model.resolved.language).name
    if chosen != trained:
        messages.say(f"Warning: the model was trained with --tokenizer {trained}, not {chosen}.")
    return text


def _has_tokens(source: object, text: TextSettings) -> bool:
    """Return whether the format of an input has tokens."""
    from elmo_cli.text.input_formats import find_format

    with usage_errors():
        return find_format(source, text.input_format).has_tokens


def check_language(text: TextSettings) -> None:
    """Raise a `UsageError` for a language that would have no effect."""
    is_used = text.tokenizer != "whitespace" or text.split_sentences
    if text.language and (":" in text.tokenizer or not is_used):
        raise click.UsageError(f"--language has no effect with --tokenizer {text.tokenizer}")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise an `InputError` from contradicting options as a `UsageError`."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from None
