"""Options that several commands share: each exists once and means the same everywhere."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.scoring import LanguageModel

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
        help="Words of a word-level model or of a softmax. [default: vocab.txt beside the weights]",
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


def language_model_options(command: _Command) -> _Command:
    """Add the options of `model_options` and that of a softmax, for `load_language_model`."""
    softmax = click.option(
        "--softmax-file",
        metavar="FILE|URL",
        help="softmax.hdf5 of a model. [default: that beside the weights]",
    )
    return model_options(softmax(command))


tokenizer_option = click.option(
    "--tokenizer",
    type=click.Choice(["moses", "whitespace"]),
    default="moses",
    show_default=True,
    help="How sentences are cut into tokens.",
)
batch_tokens_option = click.option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens computed at once. [default: 4096 on the CPU, 32768 on a GPU]",
)
batch_size_option = click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="N",
    help="Sentences that carry their state together; for --state carry only.",
)


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
    _check_model(model, options_file, weight_file)

    from elmo_cli.cli.download import progress_bars
    from elmo_cli.model_choice import choose_model

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
    _say_model(embedder.files.name)
    return embedder


def load_language_model(
    model: str | None,
    options_file: str | None,
    weight_file: str | None,
    vocabulary_file: str | None,
    softmax_file: str | None,
    cuda_device: int,
    **settings: Any,
) -> "LanguageModel":
    """The same with its softmax."""
    _check_model(model, options_file, weight_file)

    from elmo_cli.cli.download import progress_bars
    from elmo_cli.model_choice import choose_language_model

    with progress_bars() as on_progress:
        choose_language_model(
            model, options_file, weight_file, vocabulary_file, softmax_file, on_progress
        )

    from elmo_cli.scoring import LanguageModel

    language_model = LanguageModel(
        options_file,
        weight_file,
        cuda_device,
        model=model,
        vocabulary_file=vocabulary_file,
        softmax_file=softmax_file,
        **settings,
    )
    _say_model(language_model.files.name)
    return language_model


def _check_model(model: str | None, options_file: str | None, weight_file: str | None) -> None:
    if (options_file is None) != (weight_file is None):
        raise click.UsageError("--options-file and --weight-file go together")
    if model is not None and options_file is not None:
        raise click.UsageError("--model takes the place of --options-file and --weight-file")


def _say_model(name: str) -> None:
    from elmo_cli.pretrained import DEFAULT_MODEL

    note = f"Model: {name}"
    if name == DEFAULT_MODEL:
        note += " (bundled, small; --model original is the published one)"
    say(note)


def file_size(path: str | Path) -> int | None:
    """The size of an input in bytes; None for a stream."""
    from elmo_cli.text import size_in_bytes

    return size_in_bytes(path)
