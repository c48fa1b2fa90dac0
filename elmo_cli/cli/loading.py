"""Loading of the model and the tokenizer of a command."""

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from elmo_cli.callbacks import ignore
from elmo_cli.cli import stderr
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.engine import Engine
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.pretrained.files import ModelFiles
    from elmo_cli.pretrained.find import ResolvedModel
    from elmo_cli.records.input_format import TextInput
    from elmo_cli.text.sources import Source
    from elmo_cli.text.tokenizers import Tokenizer

_TOKENIZER = "elmo_cli.tokenizer"
"""Key in `Context.meta` of the tokenizer that is still to be printed."""


def resolve(settings: ModelSettings) -> "ResolvedModel":
    """Resolve the model that a user named. A command does it once."""
    from elmo_cli.pretrained.find import resolve_model

    return resolve_model(settings)


def load_model(
    model: "ResolvedModel",
    *,
    check_layers: Callable[[int], object] = ignore,
    writes_file: bool = False,
) -> "Engine":
    """Load a model.

    `check_layers` gets the number of its layers before it is loaded, which takes time.
    """
    files = find_files(model)
    check_layers(files.architecture.n_layers)

    from elmo_cli.engine import load_engine

    engine = load_engine(model.settings, files)
    say_model(files, model.settings, writes_file=writes_file)
    return engine


def load_embedder(
    model: "ResolvedModel",
    *,
    check_layers: Callable[[int], object] = ignore,
    writes_file: bool = False,
) -> "ElmoEmbedder":
    """Load a model for commands about single words and texts; see `load_model`."""
    engine = load_model(model, check_layers=check_layers, writes_file=writes_file)

    from elmo_cli.embedder import ElmoEmbedder

    return ElmoEmbedder.from_engine(engine)


def load_language_model(model: "ResolvedModel") -> "LanguageModel":
    """Load a model with its softmax."""
    files = find_files(model, with_softmax=True)

    from elmo_cli.engine import load_engine
    from elmo_cli.language_model.language_model import LanguageModel

    language_model = LanguageModel.from_engine(load_engine(model.settings, files))
    say_model(files, model.settings, writes_file=False)
    return language_model


def find_files(model: "ResolvedModel", *, with_softmax: bool = False) -> "ModelFiles":
    """Find or download the files of a model."""
    from elmo_cli.pretrained.find import files_of_resolved

    start_garbage_collector()
    return files_of_resolved(model, with_softmax=with_softmax)


def say_model(
    files: "ModelFiles", settings: ModelSettings, *, writes_file: bool
) -> None:
    """Print the tokenizer, and the name of a model that nobody named for a file.

    With -v, each model is named. All options have been checked before: wrong usage is
    an error of one line.
    """
    say_tokenizer()

    from elmo_cli.pretrained.registry import BUNDLED, is_default_named

    is_named = (
        settings.model is not None
        or settings.options_file is not None
        or is_default_named()
    )
    if stderr.verbosity() > 0 or (writes_file and not is_named):
        note = ""
        if files.name == BUNDLED:
            note = " (small, bundled). For better vectors, use --model original."
        stderr.say(f"Model: {files.name}{note}")


def start_garbage_collector() -> None:
    """Start Python's garbage collector, which `__main__` has stopped.

    It only looks at objects that are made from now on.
    """
    gc.freeze()
    gc.enable()


def open_text(
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
    keep_tokenizer(opened.tokenizer, text_settings)
    return opened


def load_tokenizer(
    text_settings: TextSettings, model: "ResolvedModel", texts: Sequence[str]
) -> "Tokenizer":
    """Return the tokenizer of typed texts, which show whether they are raw."""
    from elmo_cli.text.choose_tokenizer import choose_tokenizer

    tokenizer = choose_tokenizer(
        text_settings,
        "texts",
        texts,
        trained=model.tokenizer,
        model_language=model.language,
    )
    keep_tokenizer(tokenizer, text_settings)
    return tokenizer


def keep_tokenizer(tokenizer: "Tokenizer", text_settings: TextSettings) -> None:
    """Keep a tokenizer that was chosen for `say_tokenizer`.

    Raise a `SettingsError` for a language that has no effect.
    """
    has_language = ":" in tokenizer.name or tokenizer.splits_by is not None
    names_language = (
        text_settings.tokenizer is not None and ":" in text_settings.tokenizer
    )
    if text_settings.language and (names_language or not has_language):
        name = (
            text_settings.tokenizer if text_settings.names_tokenizer else tokenizer.name
        )
        raise SettingsError(f"{{--language}} has no effect with {{--tokenizer {name}}}")
    click.get_current_context().meta[_TOKENIZER] = tokenizer


def say_tokenizer() -> None:
    """Print the tokenizer that the text or the model has chosen, and its warning.

    It is printed once: where the model is loaded, or before an error of the run.
    """
    tokenizer = click.get_current_context().meta.pop(_TOKENIZER, None)
    if tokenizer is None:
        return
    if tokenizer.choice:
        stderr.say(f"Tokenizer: {tokenizer.choice}")
    if tokenizer.warning is not None:
        warning = stderr.shown_message(tokenizer.warning)
        stderr.say(f"Warning: {warning}")
