"""Models of commands, which are resolved already: they are loaded and named."""

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from elmo_cli.callbacks import ignore
from elmo_cli.cli import stderr
from elmo_cli.cli.command_texts import say_tokenizer
from elmo_cli.options.model import Direction, ModelSettings, reading_directions

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.engine import Engine
    from elmo_cli.language_model.language_model import LanguageModel
    from elmo_cli.pretrained.find_model import ResolvedModel
    from elmo_cli.pretrained.model_files import ModelFiles


def load_resolved_engine(
    model: "ResolvedModel",
    *,
    check_layers: Callable[[int], object] = ignore,
    writes_file: bool = False,
    hashes_model: bool = False,
) -> "Engine":
    """Load a resolved model, and print its name where the user needs it.

    Args:
        model: The model.
        check_layers: Function that gets the number of its layers before it is loaded,
            which takes time.
        writes_file: See `say_model`.
        hashes_model: True if the output records the SHA-256 of the model.
    """
    from elmo_cli.pretrained.find_model import find_resolved_files

    files = find_resolved_files(model)
    check_layers(files.architecture.n_layers)
    if hashes_model:
        from elmo_cli.pretrained.checksums import start_content_sha256

        start_content_sha256(files)

    from elmo_cli.engine import load_engine

    engine = load_engine(model.settings, files)
    start_garbage_collector()
    say_model(files, model.settings, writes_file=writes_file)
    return engine


def load_resolved_embedder(
    model: "ResolvedModel",
    *,
    check_layers: Callable[[int], object] = ignore,
    writes_file: bool = False,
) -> "ElmoEmbedder":
    """Load a model to embed single words and texts; see `load_resolved_engine`."""
    engine = load_resolved_engine(
        model, check_layers=check_layers, writes_file=writes_file
    )

    from elmo_cli.embedder import embedder_on

    return embedder_on(engine)


def load_resolved_language_model(
    model: "ResolvedModel", direction: Direction = "forward"
) -> "LanguageModel":
    """Load a model with its softmax, which must predict in a direction, or in both."""
    from elmo_cli.pretrained.find_model import find_resolved_files
    from elmo_cli.pretrained.require_directions import require_directions

    files = find_resolved_files(model, with_softmax=True)
    require_directions(files, reading_directions(direction))

    from elmo_cli.engine import load_engine
    from elmo_cli.language_model.language_model import language_model_on

    language_model = language_model_on(load_engine(model.settings, files))
    start_garbage_collector()
    say_model(files, model.settings, writes_file=False)
    return language_model


def say_model(
    files: "ModelFiles", settings: ModelSettings, *, writes_file: bool
) -> None:
    """Print the tokenizer, and keep a note about a model that nobody named for a file.

    With -v, each model is named.
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
            note = " (bundled). For better vectors, use --model original."
        stderr.keep_note(f"Model: {files.name}{note}")
    if stderr.verbosity() > 0:
        stderr.say_note()


def start_garbage_collector() -> None:
    """Start Python's garbage collector, which `__main__` has stopped.

    It only looks at objects that are made from now on, after imports and loading.
    """
    gc.freeze()
    gc.enable()
