"""Models of commands: they are resolved once, loaded and named."""

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from elmo_cli.callbacks import ignore
from elmo_cli.cli import stderr
from elmo_cli.cli.open_text import say_tokenizer
from elmo_cli.options.model import Direction, ModelSettings, reading_directions

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.engine import Engine
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.pretrained.find_model import ResolvedModel
    from elmo_cli.pretrained.model_files import ModelFiles


def resolve_model(settings: ModelSettings) -> "ResolvedModel":
    """Resolve the model that a user named. A command does it once."""
    from elmo_cli.pretrained import find_model

    return find_model.resolve_model(settings)


def load_model(
    model: "ResolvedModel",
    *,
    check_layers: Callable[[int], object] = ignore,
    writes_file: bool = False,
    records_sha256: bool = False,
) -> "Engine":
    """Load a model.

    Args:
        model: The model.
        check_layers: Function that gets the number of its layers before it is loaded,
            which takes time.
        writes_file: See `say_model`.
        records_sha256: True if the output records the SHA-256 of the model.
    """
    files = find_model_files(model)
    check_layers(files.architecture.n_layers)
    if records_sha256:
        from elmo_cli.pretrained.checksums import start_content_sha256

        start_content_sha256(files)

    from elmo_cli.engine import load_engine

    engine = load_engine(model.settings, files)
    start_garbage_collector()
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

    from elmo_cli.embedder import embedder_on

    return embedder_on(engine)


def load_language_model(
    model: "ResolvedModel", direction: Direction = "forward"
) -> "LanguageModel":
    """Load a model with its softmax, which must predict in a direction, or in both."""
    files = find_model_files(model, with_softmax=True)

    from elmo_cli.pretrained.require_directions import require_directions

    require_directions(files, reading_directions(direction))

    from elmo_cli.engine import load_engine
    from elmo_cli.language_model.language_model import language_model_on

    language_model = language_model_on(load_engine(model.settings, files))
    start_garbage_collector()
    say_model(files, model.settings, writes_file=False)
    return language_model


def find_model_files(
    model: "ResolvedModel", *, with_softmax: bool = False
) -> "ModelFiles":
    """Find or download the files of a model."""
    from elmo_cli.pretrained.find_model import find_resolved_model

    return find_resolved_model(model, with_softmax=with_softmax)


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

    It only looks at objects that are made from now on, after imports and loading.
    """
    gc.freeze()
    gc.enable()
