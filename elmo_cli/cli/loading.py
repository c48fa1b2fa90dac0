"""Loading of the model and the tokenizer of a command."""

import gc
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import stderr
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


def resolve(settings: ModelSettings) -> "ResolvedModel":
    """Resolve the model that a user named. A command does it once."""
    from elmo_cli.pretrained.find import resolve_model

    return resolve_model(settings)


def load_model(model: "ResolvedModel") -> "Engine":
    """Load a model."""
    files = find_files(model)

    from elmo_cli.engine import load_engine

    return load_engine(model.settings, files)


def load_embedder(model: "ResolvedModel") -> "ElmoEmbedder":
    """Load a model for commands about single words and texts."""
    engine = load_model(model)

    from elmo_cli.embedder import ElmoEmbedder

    return ElmoEmbedder.from_engine(engine)


def load_language_model(model: "ResolvedModel") -> "LanguageModel":
    """Load a model with its softmax."""
    files = find_files(model, with_softmax=True)

    from elmo_cli.engine import load_engine
    from elmo_cli.language_model.language_model import LanguageModel

    return LanguageModel.from_engine(load_engine(model.settings, files))


def find_files(model: "ResolvedModel", *, with_softmax: bool = False) -> "ModelFiles":
    """Find or download the files of a model, and print its name."""
    from elmo_cli.pretrained.find import files_of_resolved
    from elmo_cli.pretrained.registry import BUNDLED

    collect_garbage()
    files = files_of_resolved(model, with_softmax=with_softmax)
    note = ""
    if files.name == BUNDLED:
        note = " (bundled, small; the published model is --model original)"
    stderr.say(f"Model: {files.name}{note}")
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
    model: "ResolvedModel",
    *,
    lines_are_raw: bool = False,
) -> "TextInput":
    """Open a text, and decide its format and tokenizer.

    With `lines_are_raw`, lines are tokenized like tables, because words are asked for.
    """
    from elmo_cli.records.text_input import open_input

    opened = open_input(
        source,
        text,
        trained=model.tokenizer,
        language=model.language,
        lines_are_raw=lines_are_raw,
    )
    _check_tokenizer(opened.tokenizer, opened.trained, text)
    return opened


def load_tokenizer(
    text: TextSettings,
    model: "ResolvedModel",
    source: str | None = None,
    *,
    is_new: bool = False,
) -> "Tokenizer":
    """Return the tokenizer of typed text, or of a source that others open.

    With `is_new`, the model has no training yet.
    """
    from elmo_cli.records.formats import find_format
    from elmo_cli.records.text_input import content_of
    from elmo_cli.text.choose_tokenizer import Content, choose_tokenizer
    from elmo_cli.text.sources import Source

    trained = None if is_new else model.tokenizer
    content: Content = "raw"
    if source is not None:
        content = content_of(find_format(Source(source), text.input_format))
    if content == "tokens":
        if text.tokenizer not in (None, "whitespace"):
            raise click.UsageError(
                f"--tokenizer has no effect with the tokens of {source}"
            )
        trained = None
    tokenizer = choose_tokenizer(
        text, content, trained=trained, model_language=model.language
    )
    _check_tokenizer(tokenizer, trained, text)
    return tokenizer


def typed_tokens(tokenizer: "Tokenizer", text: str) -> list[str]:
    """Return the tokens of a typed text. Warn once if it looks tokenized already."""
    from elmo_cli.records.warnings.detached_tokens import find_detached_token

    tokens = tokenizer.tokenize(text)
    detached = find_detached_token(text, tokens)
    meta = click.get_current_context().meta
    if detached is not None and detached.text_is_split and not meta.get("has_warned"):
        stderr.say(
            f"Warning: {detached.shown!r} looks tokenized already. "
            "Use --tokenizer whitespace."
        )
        meta["has_warned"] = True
    return tokens


def _check_tokenizer(
    tokenizer: "Tokenizer", trained: str | None, text: TextSettings
) -> None:
    """Print the tokenizer of the training, or warn of another one.

    Raise a `UsageError` for a language that has no effect.
    """
    has_language = ":" in tokenizer.name or tokenizer.splits_by is not None
    names_language = text.tokenizer is not None and ":" in text.tokenizer
    if text.language and (names_language or not has_language):
        name = text.tokenizer or tokenizer.name
        raise click.UsageError(f"--language has no effect with --tokenizer {name}")
    if trained is None:
        return
    if not text.chooses_tokenizer:
        stderr.say(f"Tokenizer: {trained}, as in the model's training")
    elif trained != tokenizer.name:
        stderr.say(
            f"Warning: the model was trained with --tokenizer {trained}, "
            f"not {tokenizer.name}"
        )
