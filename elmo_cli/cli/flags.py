"""Options that several commands share: each exists once and means the same everywhere."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=str)


def model_options(command: _Command) -> _Command:
    """Add the options that choose a model and a device, for `load_embedder`."""
    for option in reversed(_MODEL_OPTIONS):
        command = option(command)
    return command


_MODEL_OPTIONS = [
    click.option(
        "--model",
        metavar="NAME|FOLDER",
        help="A model of `elmo models`, or a folder or zip that holds one. "
        "[default: the bundled one, or ELMO_MODEL]",
    ),
    click.option(
        "--options-file",
        metavar="FILE|URL",
        help="options.json of a model, together with --weight-file.",
    ),
    click.option(
        "--weight-file",
        metavar="FILE|URL",
        help="weights.hdf5 or weights.safetensors of a model.",
    ),
    click.option(
        "--vocabulary-file",
        type=_PATH,
        metavar="FILE",
        help="Words of a word-level model. [default: vocab.txt beside the weights]",
    ),
    click.option(
        "--cuda",
        "--cuda-device",
        "cuda_device",
        type=click.IntRange(min=-1),
        default=-1,
        metavar="N",
        help="Run on GPU number N. [default: the CPU]",
    ),
    click.option(
        "--state",
        type=click.Choice(["zero", "warm", "carry"]),
        default="zero",
        show_default=True,
        help="Where sentences start: at zero; after a fixed text; or where an earlier one ended, "
        "as AllenNLP did.",
    ),
    click.option(
        "--precision",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        default="float32",
        show_default=True,
        help="Of the arithmetic.",
    ),
]


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    logging.basicConfig(format="%(message)s")
    logging.getLogger("elmo_cli").setLevel(max(10, 30 - 10 * (verbosity + 1)))
    return count


def verbosity_options(command: _Command) -> _Command:
    """Add -v and -q."""
    quiet = click.option(
        "-q",
        "--quiet",
        count=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Say nothing but errors.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Say more; twice, with the traceback of an error.",
    )
    return verbose(quiet(command))


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if click.get_current_context().meta.get("verbosity", 0) >= 0:
        click.echo(message, err=True)


def load_embedder(
    model: str | None,
    options_file: str | None,
    weight_file: str | None,
    vocabulary_file: str | None,
    cuda_device: int,
    **settings: Any,
) -> "ElmoEmbedder":
    """Load the model of the shared options, and say which one it is."""
    if (options_file is None) != (weight_file is None):
        raise click.UsageError("--options-file and --weight-file go together")
    if model is not None and options_file is not None:
        raise click.UsageError("--model takes the place of --options-file and --weight-file")

    from elmo_cli.cli.download import progress_bars
    from elmo_cli.model_choice import choose_model
    from elmo_cli.pretrained import DEFAULT_MODEL

    with progress_bars() as on_progress:  # nothing to show for files that are there
        choose_model(model, options_file, weight_file, vocabulary_file, on_progress)

    from elmo_cli.embedder import ElmoEmbedder

    embedder = ElmoEmbedder(
        options_file,
        weight_file,
        cuda_device,
        model=model,
        vocabulary_file=vocabulary_file,
        **settings,
    )
    note = f"Model: {embedder.files.name}"
    if embedder.files.name == DEFAULT_MODEL:
        note += " (bundled, small; --model original is the published one)"
    say(note)
    return embedder


def file_size(path: str | Path) -> int | None:
    """The size of an input in bytes; None for a stream."""
    from elmo_cli.text import size_in_bytes

    return size_in_bytes(path)
