"""Options: what they require and exclude, their headings in the help, and those that are shared."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elmo_cli.cli.streams import escaped
from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import DTYPES, STANDARD_OUTPUT, has_unknown_suffix
from elmo_cli.text.lines import STANDARD_INPUT
from elmo_cli.text.tokenizers import make_tokenizer

if TYPE_CHECKING:
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.pretrained.model_files import ModelFiles
    from elmo_cli.text.tokenizers import Tokenizer

Decorator = Callable[[Any], Any]

OTHER_OPTIONS = "Other options"
"""The heading of -q, -v and --help; it comes last."""


class Option(click.Option):
    """An option with a heading, and the options that it requires or excludes.

    A condition is the name of an option, or its name and a value: `--state carry`. Several
    are joined by ` or `.
    """

    heading = "Options"

    def __init__(
        self, declarations: Sequence[str], requires: str = "", excludes: str = "", **settings: Any
    ) -> None:
        super().__init__(declarations, **settings)
        self.requires, self.excludes = requires, excludes

    def check(self, ctx: click.Context) -> None:
        """Refuse the option where it would have no effect, or with one that it excludes."""
        if not _is_given(ctx, self):
            return
        if self.requires and not self._that_hold(ctx, self.requires):
            raise click.UsageError(f"{self.opts[0]} requires {self.requires}", ctx)
        for other in self._that_hold(ctx, self.excludes):
            raise click.UsageError(f"choose one of {self.opts[0]} and {other}", ctx)

    def _that_hold(self, ctx: click.Context, conditions: str) -> list[str]:
        held = []
        for condition in conditions.split(" or ") if conditions else []:
            name, _, value = condition.partition(" ")
            option = next(option for option in ctx.command.params if name in option.opts)
            holds = ctx.params[str(option.name)] == value if value else _is_given(ctx, option)
            if holds and option is not self:
                held.append(condition)
        return held


def _is_given(ctx: click.Context, option: click.Parameter) -> bool:
    """Whether an option is on the command line."""
    return ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE


class Command(click.Command):
    """A command that checks its options, and shows them by their headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command.parse_args`."""
        rest = super().parse_args(ctx, args)
        for option in [] if ctx.resilient_parsing else self.params:
            if isinstance(option, Option):
                option.check(ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading in the order of their definition."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                groups.setdefault(getattr(option, "heading", OTHER_OPTIONS), []).append(record)
        groups[OTHER_OPTIONS] = groups.pop(OTHER_OPTIONS)  # with --help, which is always there
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command(name: str | None = None) -> Decorator:
    """Make a function a command, with -q and -v."""

    def make(function: Callable[..., Any]) -> click.Command:
        return click.command(name, cls=Command)(verbosity_options(function))

    return make


def option_group(heading: str, *decorators: Decorator) -> Decorator:
    """Add options to a command, under a heading of its help.

    Args:
        heading: what the options are about.
        decorators: each adds one option or several.
    """

    def add(function: Any) -> Any:
        n_before = len(_parameters(function))
        for decorator in reversed(decorators):
            function = decorator(function)
        for parameter in _parameters(function)[n_before:]:
            parameter.heading = heading  # type: ignore[attr-defined]
        return function

    return add


def _parameters(function: Any) -> list[click.Parameter]:
    """The parameters that decorators have given to the function of a command so far."""
    return getattr(function, "__click_params__", [])


def option(*names: str, **settings: Any) -> Decorator:
    """Add an option, whose help says its default; see `click.option`."""
    return click.option(*names, cls=Option, **{"show_default": True, **settings})


def flag(*names: str, **settings: Any) -> Decorator:
    """Add an option without a value."""
    return option(*names, is_flag=True, **settings)


def choice(name: str, values: Sequence[str], **settings: Any) -> Decorator:
    """Add an option with one of some values."""
    return option(name, type=click.Choice(values), **settings)


def count(*names: str, least: int = 1, **settings: Any) -> Decorator:
    """Add an option with a whole number."""
    return option(*names, type=click.IntRange(least), metavar="N", **settings)


def json_option(what: str) -> Decorator:
    """Add --json.

    Args:
        what: follows `Print JSON` in its help.
    """
    return flag("--json", "as_json", help=f"Print JSON, {what}.")


def softmax_option(**settings: Any) -> Decorator:
    """Add --softmax-file."""
    return option(
        "--softmax-file",
        metavar="FILE|URL",
        help="softmax.hdf5 of a model. [default: that beside the weights]",
        **settings,
    )


def device_option(**settings: Any) -> Decorator:
    """Add --device."""
    return option(
        *("--device", "--cuda", "--cuda-device", "device"),
        default="cpu",
        metavar="DEVICE",
        help="Device: cpu, cuda:N or N, mps, or auto, which is a GPU if there is one.",
        **settings,
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


file_options = option_group(
    "Model",
    option(
        "--model",
        metavar="NAME|FOLDER",
        excludes="--options-file",
        help="A model of `elmo models`, hf:OWNER/NAME, or a folder or zip that holds one. "
        "[default: the bundled one, or ELMO_MODEL]",
    ),
    option(
        "--options-file",
        metavar="FILE|URL",
        requires="--weight-file",
        help="options.json of a model, together with --weight-file.",
    ),
    option(
        "--weight-file",
        metavar="FILE|URL",
        requires="--options-file",
        help="weights.hdf5 or weights.safetensors of a model.",
    ),
    option(
        "--vocabulary-file",
        metavar="FILE",
        help="Words of a word-level model or of a softmax. [default: vocab.txt beside the weights]",
    ),
)
"""Which files are the model: for `take_files`."""
model_options = option_group(
    "Model",
    file_options,
    choice(
        "--state",
        ["zero", "warm", "carry"],
        help="Initial LSTM state of each sentence: zero, warm (after a fixed text) or carried "
        "over, as AllenNLP did. [default: zero; warm for a model of `elmo train --state carry`]",
    ),
)
precision_option = choice(
    "--precision",
    ["float32", "bfloat16", "float16", "int8"],
    default="float32",
    help="Precision of the computation; int8 is for processors with AVX-512 VNNI.",
)
speed_options = option_group("Speed", device_option(), precision_option)
selection_options = option_group(
    "Output",
    option(
        "--layers",
        metavar="CHOICE",
        help="Layers to write: all, top, average, sum, word_emb, lstm1, lstm2, or numbers such as "
        "0,2. [default: all]",
    ),
    option(
        "--mix",
        callback=_numbers,
        metavar="S0,S1,...",
        excludes="--layers",
        help="Weighted sum of all layers, by the scalar parameters that a task has learned, before "
        "the softmax.",
    ),
    option(
        "--gamma", type=float, metavar="G", requires="--mix", help="Scale of --mix. [default: 1]"
    ),
    choice(
        "--pooling",
        ["mean", "max", "first", "last"],
        help="One vector a sentence, from its tokens; zeros for a blank line. [default: all "
        "tokens]",
    ),
    choice("--dtype", DTYPES, default="float32", help="Data type of the stored values."),
)


def batch_size_option(**settings: Any) -> Decorator:
    """Add --batch-size."""
    return count(
        "--batch-size", default=64, help="Sentences in a batch, with --state carry.", **settings
    )


def checkpoint_option(*, default: float) -> Decorator:
    """Add --checkpoint-seconds."""
    return option(
        "--checkpoint-seconds",
        type=click.FloatRange(min=0),
        default=default,
        metavar="N",
        help="Seconds between checkpoints.",
    )


def tokenizer_options(default: str, **settings: Any) -> Decorator:
    """Add --tokenizer and --language, for `take_tokenizer`."""
    return option_group(
        "Text",
        option(
            "--tokenizer",
            metavar="NAME",
            default=default,
            help="What cuts text into tokens: whitespace, moses or spacy, the last two by the "
            "rules of a language, which may follow: spacy:de.",
            **settings,
        ),
        option(
            "--language",
            metavar="CODE",
            help="Language of the text, such as fr. [default: that of the model, else en]",
            **settings,
        ),
    )


def text_options(default: str, **settings: Any) -> Decorator:
    """Add those of `tokenizer_options`, and --split-sentences."""
    split = flag(
        "--split-sentences",
        help="Split lines into sentences, which are numbered in place of lines: for running text.",
        **settings,
    )
    return option_group("Text", tokenizer_options(default, **settings), split)


def take_tokenizer(named: dict[str, Any]) -> "Tokenizer":
    """Take the tokenizer out of the options of a command; its language is that of the model."""
    name, language = named.pop("tokenizer"), named.pop("language")
    split = named.pop("split_sentences", False)
    if language and (":" in name or (name == "whitespace" and not split)):
        raise click.UsageError(f"--language has no effect with --tokenizer {name}")

    from elmo_cli.pretrained.loading import language_of

    model = named["init_from"] if "init_from" in named else named["model"]
    language = language or language_of(model, named["options_file"])
    with usage_errors():
        return make_tokenizer(name, language, split_sentences=split)


batch_tokens_option = count(
    "--batch-tokens",
    help="Maximum number of tokens in a batch. [default: 8192 on the CPU, 32768 on a GPU]",
)


def run_options(function: Any) -> Any:
    """Add those that choose a model and how it runs, for `load_embedder`."""
    return model_options(speed_options(function))


def language_model_options(function: Any) -> Any:
    """Add those of `run_options`, and that of a softmax: for `load_language_model`."""
    return model_options(option_group("Model", softmax_option())(speed_options(function)))


def scoring_options(function: Any) -> Any:
    """Add those of a command that scores a text."""
    batch_size = batch_size_option(requires="--state carry")
    speed = batch_tokens_option(batch_size(function))
    return text_options("whitespace")(language_model_options(speed))


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


def verbosity_options(function: Any) -> Any:
    """Add -v and -q."""
    settings: dict[str, Any] = {"count": True, "expose_value": False, "callback": _set_verbosity}
    quiet = click.option("-q", "--quiet", help="Print errors only.", **settings)
    more = "Print more; twice, the traceback of an error too."
    return click.option("-v", "--verbose", help=more, **settings)(quiet(function))


def is_quiet() -> bool:
    """Whether -q was given."""
    verbosity: int = click.get_current_context().meta.get("verbosity", 0)
    return verbosity < 0


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if not is_quiet():
        click.echo(escaped(message) if sys.stderr.isatty() else message, err=True)


def given(*names: str) -> list[str]:
    """Those of some options that are on the command line."""
    context = click.get_current_context()
    return [
        name
        for option in context.command.params
        for name in option.opts
        if name in names and _is_given(context, option)
    ]


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
