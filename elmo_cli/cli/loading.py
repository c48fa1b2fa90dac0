"""Loading of what the options name: a model, whose files are downloaded with a bar; a tokenizer."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import messages
from elmo_cli.errors import InputError
from elmo_cli.settings import ModelSettings, TextSettings

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.model_files import ModelFiles
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
    note = " (bundled, small; --model original is the published one)"
    messages.say(f"Model: {files.name}{note if files.name == BUNDLED else ''}")
    return files


def collect_garbage() -> None:
    """Start Python's collector, which `__main__` has stopped, for objects made from now on."""
    gc.freeze()
    gc.enable()


def make_tokenizer(text: TextSettings, model_language: str | None) -> "Tokenizer":
    """Make the tokenizer of the options; `model_language` counts where they name no language."""
    check_language(text)
    with usage_errors():
        return text.make_tokenizer(model_language)


def check_language(text: TextSettings) -> None:
    """Refuse a language that would have no effect."""
    is_used = text.tokenizer != "whitespace" or text.split_sentences
    if text.language and (":" in text.tokenizer or not is_used):
        raise click.UsageError(f"--language has no effect with --tokenizer {text.tokenizer}")


def model_language(settings: ModelSettings) -> str | None:
    """Return the language of a model by its name alone; nothing is downloaded."""
    options_file = settings.options_file
    model = None if settings.model is None else str(settings.model)
    from elmo_cli.pretrained.loading import language_of

    return language_of(model, None if options_file is None else str(options_file))


@contextmanager
def usage_errors() -> Iterator[None]:
    """Show an `InputError`, of options that contradict each other, as wrong usage."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from None
