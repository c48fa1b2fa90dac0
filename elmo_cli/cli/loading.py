"""What the options name, loaded: a model, its files downloaded with a bar; a tokenizer."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import messages
from elmo_cli.errors import InputError

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.model_files import ModelFiles
    from elmo_cli.text.tokenizers import Tokenizer


def load_embedder(**named: Any) -> "ElmoEmbedder":
    """Load the model of the shared options; `named` are those of `run_options`."""
    files = take_files(named)

    from elmo_cli.embedder import ElmoEmbedder

    return ElmoEmbedder(model=files, **named)


def load_language_model(**named: Any) -> "LanguageModel":
    """The same with its softmax."""
    files = take_files(named, with_softmax=True)

    from elmo_cli.language_model.scoring import LanguageModel

    return LanguageModel(model=files, **named)


def take_files(named: dict[str, Any], *, with_softmax: bool = False) -> "ModelFiles":
    """Find or download the files of a model by the options, which are taken out; say its name."""
    names = ("model", "options_file", "weight_file", "vocabulary_file", "softmax_file")
    files = {name: named.pop(name, None) for name in names}

    from elmo_cli.pretrained.loading import choose_model
    from elmo_cli.pretrained.registry import BUNDLED

    collect_garbage()
    with usage_errors():
        found = choose_model(**files, with_softmax=with_softmax)
    note = " (bundled, small; --model original is the published one)"
    messages.say(f"Model: {found.name}{note if found.name == BUNDLED else ''}")
    return found


def collect_garbage() -> None:
    """Start Python's collector, which `__main__` has stopped, for objects made from now on."""
    gc.freeze()
    gc.enable()


def take_tokenizer(named: dict[str, Any]) -> "Tokenizer":
    """Take the tokenizer out of the options of a command; its language is that of the model."""
    name, language = named.pop("tokenizer"), named.pop("language")
    split = named.pop("split_sentences", False)
    if language and (":" in name or (name == "whitespace" and not split)):
        raise click.UsageError(f"--language has no effect with --tokenizer {name}")

    from elmo_cli.pretrained.loading import language_of
    from elmo_cli.text.tokenizers import make_tokenizer

    model = named["init_from"] if "init_from" in named else named["model"]
    language = language or language_of(model, named["options_file"])
    with usage_errors():
        return make_tokenizer(name, language, split_sentences=split)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Show an `InputError`, of options that do not go together, as wrong usage."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from None
