"""Options that several commands share: each exists once and means the same everywhere."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from elmo_cli.cli.streams import escaped
from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import DTYPES, STANDARD_OUTPUT, has_unknown_suffix
from elmo_cli.text.lines import STANDARD_INPUT
from elmo_cli.text.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.model_files import ModelFiles

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=str)

OTHER_OPTIONS = "Other options"
"""The heading of the options in no group; it comes last."""


class GroupedCommand(click.Command):
    """A command whose help shows its options in the groups of `option_group`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group in the order of their definition."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(getattr(parameter, "group", OTHER_OPTIONS), []).append(record)
        other = groups.pop(OTHER_OPTIONS)  # with --help, which is always there
        for heading, records in [*groups.items(), (OTHER_OPTIONS, other)]:
            with formatter.section(heading):
                formatter.write_dl(records)


def option_group(
    heading: str, *options: Callable[[_Command], _Command]
) -> Callable[[_Command], _Command]:
    """Add options to a command, under a heading of its help.

    Args:
        heading: what the options are about.
        options: decorators that add one option or several, such as `click.option(...)`.
    """

    def add(command: _Command) -> _Command:
        n_before = len(_parameters(command))
        for option in reversed(options):
            command = option(command)
        for parameter in _parameters(command)[n_before:]:
            parameter.group = heading  # type: ignore[attr-defined]
        return command

    return add


def _parameters(command: Callable[..., Any]) -> list[click.Parameter]:
    """The parameters that decorators have given to the function of a command so far."""
    return getattr(command, "__click_params__", [])


def model_options(command: _Command) -> _Command:
    """Add the options that choose a model and its initial states."""
    return _add([*_FILE_OPTIONS, _STATE_OPTION], command)


def selection_options(command: _Command) -> _Command:
    """Add those that choose and pool layers."""
    return _add(_SELECTION_OPTIONS, command)


def speed_options(command: _Command) -> _Command:
    """Add those that choose a device and a precision."""
    return _add([_CUDA_OPTION, _PRECISION_OPTION], command)


def run_options(command: _Command) -> _Command:
    """Add those that choose a model and how it runs, for `load_embedder`."""
    return model_options(speed_options(command))


def file_options(command: _Command) -> _Command:
    """Add those that choose a model and a device, for `take_files`."""
    return _add([*_FILE_OPTIONS, _CUDA_OPTION], command)


def _add(options: list[Callable[[_Command], _Command]], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


_FILE_OPTIONS: list[Callable[[Any], Any]] = [
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
]
_CUDA_OPTION = click.option(
    "--cuda",
    "--cuda-device",
    "cuda_device",
    type=click.IntRange(min=-1),
    default=-1,
    metavar="N",
    help="Run on GPU number N. [default: the CPU]",
)
_STATE_OPTION = click.option(
    "--state",
    type=click.Choice(["zero", "warm", "carry"]),
    help="Initial LSTM state of each sentence: zero, warm (after a fixed text) or carried over, "
    "as AllenNLP did. [default: zero; warm for a model of `elmo train --state carry`]",
)
_PRECISION_OPTION = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="Precision of the computation; int8 is for processors with AVX-512 VNNI.",
)


def _numbers(
    ctx: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    """Read numbers with commas between."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        message = f"expected numbers with commas between, found {text!r}"
        raise click.BadParameter(message, ctx, parameter) from None


_SELECTION_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--layers",
        metavar="CHOICE",
        help="Layers to write: all, top, average, sum, word_emb, lstm1, lstm2, or numbers such as "
        "0,2. [default: all]",
    ),
    click.option(
        "--mix",
        callback=_numbers,
        metavar="S0,S1,...",
        help="Weighted sum of all layers, by the scalar parameters that a task has learned, before "
        "the softmax.",
    ),
    click.option("--gamma", type=float, metavar="G", help="Scale of --mix. [default: 1]"),
    click.option(
        "--pooling",
        type=click.Choice(["mean", "max", "first", "last"]),
        help="One vector a sentence, from its tokens; zeros for a blank line. [default: all "
        "tokens]",
    ),
]
dtype_option = click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    default="float32",
    show_default=True,
    help="Data type of the stored values.",
)


softmax_option = click.option(
    "--softmax-file",
    metavar="FILE|URL",
    help="softmax.hdf5 of a model. [default: that beside the weights]",
)


def language_model_options(command: _Command) -> _Command:
    """Add the options of `run_options` and that of a softmax, for `load_language_model`."""
    return run_options(softmax_option(command))


tokenizer_option = click.option(
    "--tokenizer",
    type=click.Choice(list(TOKENIZERS)),
    default="moses",
    show_default=True,
    help="Tokenizer of the sentences.",
)
batch_tokens_option = click.option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of tokens in a batch. [default: 8192 on the CPU, 32768 on a GPU]",
)
batch_size_option = click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="N",
    help="Sentences in a batch, with --state carry.",
)


class LineFormatter(logging.Formatter):
    """The message alone, as `say` prints one."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record, escaped on a terminal."""
        text = super().format(record)
        return escaped(text) if sys.stderr.isatty() else text


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    logging.basicConfig()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(LineFormatter())
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
        help="Print errors only.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Print more; twice, the traceback of an error too.",
    )
    return verbose(quiet(command))


def is_quiet() -> bool:
    """Whether -q was given."""
    verbosity: int = click.get_current_context().meta.get("verbosity", 0)
    return verbosity < 0


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if not is_quiet():
        click.echo(escaped(message) if sys.stderr.isatty() else message, err=True)


def given(*names: str) -> list[str]:
    """The options on the command line, of those whose parameters have these names."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def check_effect(has_effect: bool, reason: str, *names: str) -> None:
    """Refuse options that would have no effect.

    Args:
        has_effect: whether they have one.
        reason: what follows the name of the option, as `requires --sample`.
        names: of their parameters.
    """
    for option in [] if has_effect else given(*names):
        raise click.UsageError(f"{option} {reason}")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Show an `InputError`, of options that do not go together, as wrong usage."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from None


def refuse_standard_input(argument: str, *paths: str | Path) -> None:
    """Refuse `-` for a file that is read more than once, or not from its beginning to its end."""
    if STANDARD_INPUT in map(str, paths):
        raise click.UsageError(f"{argument}: expected a file, found -; standard input is not read")


def name_of_output(path: str) -> str:
    """What messages call an output."""
    return "standard output" if path == STANDARD_OUTPUT else path


def warn_of_unknown_suffix(path: str, file_format: str | None) -> None:
    """Warn that an output is HDF5, where its name says something else."""
    if file_format is None and has_unknown_suffix(path):
        say(f"Warning: {path} will be HDF5; --format or the suffix names another format.")


def load_embedder(**named: Any) -> "ElmoEmbedder":
    """Load the model of the shared options, and print its name.

    Args:
        named: the options of `run_options`, and others of `ElmoEmbedder`.
    """
    files = take_files(named)

    from elmo_cli.embedder import ElmoEmbedder

    embedder = ElmoEmbedder(model=files, **named)
    say_model(files.name)
    return embedder


def load_language_model(**named: Any) -> "LanguageModel":
    """The same with its softmax."""
    files = take_files(named, with_softmax=True)

    from elmo_cli.language_model.scoring import LanguageModel

    model = LanguageModel(model=files, **named)
    say_model(files.name)
    return model


def take_files(named: dict[str, Any], *, with_softmax: bool = False) -> "ModelFiles":
    """The files of a model, those that are not there downloaded with a bar each.

    Args:
        named: options, from which those that name the files are taken out.
        with_softmax: those of a language model.
    """
    model, options_file, weight_file, vocabulary_file, softmax_file = (
        named.pop(name, None)
        for name in ("model", "options_file", "weight_file", "vocabulary_file", "softmax_file")
    )
    if (options_file is None) != (weight_file is None):
        given_one, other = ("--options-file", "--weight-file")[:: 1 if options_file else -1]
        raise click.UsageError(f"{given_one} requires {other}")
    if model is not None and options_file is not None:
        raise click.UsageError("--model takes the place of --options-file and --weight-file")

    from elmo_cli.cli.progress import download_bars
    from elmo_cli.pretrained.loading import choose_language_model, choose_model

    files = (model, options_file, weight_file, vocabulary_file)
    with usage_errors(), download_bars() as on_progress:  # nothing to show for files that are there
        if with_softmax:
            return choose_language_model(*files, softmax_file, on_progress)
        return choose_model(*files, on_progress)


def say_model(name: str) -> None:
    """Say which model runs."""
    from elmo_cli.pretrained.loading import DEFAULT_MODEL

    note = f"Model: {name}"
    if name == DEFAULT_MODEL:
        note += " (bundled, small; --model original is the published one)"
    say(note)
