"""Options: what they require and exclude, their headings in the help, and those that are shared."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from elmo_cli.cli.messages import verbosity_options
from elmo_cli.outputs.formats import DTYPES

Decorator = Callable[[Any], Any]

PATH = click.Path(readable=False, allow_dash=True, path_type=str)
"""A file, folder or `-`: TAB completes it. What is wrong with it is said where it is read."""
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
        self.value_if_absent = settings.get("default")

    def check(self, ctx: click.Context) -> None:
        """Refuse the option where it would have no effect, or with one that it excludes."""
        if not _is_set(ctx, self):
            return
        if self.requires and not self._that_hold(ctx, self.requires):
            if _is_typed(ctx, self):
                raise click.UsageError(f"{self.opts[0]} requires {self.requires}", ctx)
            ctx.params[str(self.name)] = self.value_if_absent
        for other in self._that_hold(ctx, self.excludes):
            raise click.UsageError(f"choose one of {_shown(ctx, self)} and {other}", ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """What a bad value came from: the option, with its variable; see `click.Option`."""
        hint = super().get_error_hint(ctx)
        return hint if ctx is None else hint.replace(self.opts[0], _shown(ctx, self))

    def _that_hold(self, ctx: click.Context, conditions: str) -> list[str]:
        held = []
        for condition in conditions.split(" or ") if conditions else []:
            name, _, value = condition.partition(" ")
            option = next(option for option in ctx.command.params if name in option.opts)
            holds = ctx.params[str(option.name)] == value if value else _is_set(ctx, option)
            if holds and option is not self:
                held.append(f"{_shown(ctx, option)} {value}".rstrip())
        return held


def _is_typed(ctx: click.Context, option: click.Parameter) -> bool:
    return ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE


def _is_set(ctx: click.Context, option: click.Parameter) -> bool:
    """Whether an option is on the command line or in the environment."""
    source = ctx.get_parameter_source(str(option.name))
    sources = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return source in sources and ctx.params.get(str(option.name)) is not False


def _shown(ctx: click.Context, option: click.Parameter) -> str:
    """The name of an option, with the variable that it comes from."""
    source = ctx.get_parameter_source(str(option.name))
    variable = f" ({option.envvar})" if source is ParameterSource.ENVIRONMENT else ""
    return f"{option.opts[0]}{variable}"


class Command(click.Command):
    """A command that checks its options, and shows them by their headings.

    Each option has a variable of the environment: `elmo embed --layers`, ELMO_EMBED_LAYERS.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for option in self.params:
            if isinstance(option, Option):
                long = next(opt for opt in option.opts if opt.startswith("--"))
                option.envvar = f"elmo_{name}_{long[2:]}".replace("-", "_").upper()

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
    """Add options to a command, under a heading of its help; each decorator adds one or several."""

    def add(function: Any) -> Any:
        n_before = len(getattr(function, "__click_params__", []))  # click's own list, so far
        for decorator in reversed(decorators):
            function = decorator(function)
        for parameter in function.__click_params__[n_before:]:
            parameter.heading = heading
        return function

    return add


option = partial(click.option, cls=Option, show_default=True)
flag = partial(option, is_flag=True)
url_option = partial(option, type=PATH, metavar="FILE|URL")


def choice(name: str, values: Sequence[str], **settings: Any) -> Decorator:
    """Add an option with one of some values."""
    return option(name, type=click.Choice(values), **settings)


def count(*names: str, least: int = 1, **settings: Any) -> Decorator:
    """Add an option with a whole number."""
    return option(*names, type=click.IntRange(least), metavar="N", **settings)


def complete_models(
    _ctx: click.Context, _parameter: click.Parameter, start: str
) -> list[CompletionItem]:
    """The models whose names start so; a shell offers files where there are none."""
    from elmo_cli.pretrained.registry import MODELS

    names = [model.name for model in MODELS if model.name.startswith(start)]
    return [CompletionItem(start, type="file"), *map(CompletionItem, names)]


def complete_values(*values: str) -> Callable[..., list[str]]:
    """A `shell_complete` for values among which others are possible."""
    return lambda _ctx, _parameter, start: [each for each in values if each.startswith(start)]


def json_option(what: str) -> Decorator:
    """Add --json."""
    return flag("--json", "as_json", help=f"Print JSON, {what}.")


overwrite_option = flag("--overwrite", help="Replace OUT if it exists.")


def mean_layers_option(verb: str, source: str = "Layers of FILE") -> Decorator:
    """Add --layers, of a file of activations; the verb says what is done with their mean."""
    return option(
        "--layers",
        metavar="N,...",
        help=f"{source} whose mean is {verb}. [default: all but layer 0, which knows spelling "
        "only]",
    )


softmax_option = partial(
    url_option,
    "--softmax-file",
    help="softmax.hdf5 of a model. [default: that beside the weights]",
)
device_option = partial(
    option,
    *("--device", "--cuda", "--cuda-device", "device"),
    default="cpu",
    metavar="DEVICE",
    shell_complete=complete_values("auto", "cpu", "cuda", "mps"),
    help="Device: cpu, cuda:N or N, mps, or auto, which is a GPU if there is one.",
)


def _numbers(
    ctx: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
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
        shell_complete=complete_models,
        excludes="--options-file",
        help="A model of `elmo models`, hf:OWNER/NAME, or a folder or zip that holds one. "
        "[default: the bundled one, or ELMO_MODEL]",
    ),
    url_option(
        "--options-file",
        requires="--weight-file",
        help="options.json of a model, together with --weight-file.",
    ),
    url_option(
        "--weight-file",
        requires="--options-file",
        help="weights.hdf5 or weights.safetensors of a model.",
    ),
    option(
        "--vocabulary-file",
        type=PATH,
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
        shell_complete=complete_values(
            "all", "average", "sum", "top", "word_emb", "lstm1", "lstm2"
        ),
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
batch_size_option = partial(
    count, "--batch-size", default=64, help="Sentences in a batch, with --state carry."
)
batch_tokens_option = count(
    "--batch-tokens",
    help="Maximum number of tokens in a batch. [default: 8192 on the CPU, 32768 on a GPU]",
)


def tokenizer_options(default: str, **settings: Any) -> Decorator:
    """Add --tokenizer and --language, for `take_tokenizer`."""
    return option_group(
        "Text",
        option(
            "--tokenizer",
            metavar="NAME",
            default=default,
            shell_complete=complete_values("whitespace", "moses", "spacy"),
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


def run_options(function: Any) -> Any:
    """Add those that choose a model and how it runs, for `load_embedder`."""
    return model_options(speed_options(function))


def language_model_options(function: Any) -> Any:
    """Add those of `run_options`, and that of a softmax: for `load_language_model`."""
    return model_options(option_group("Model", softmax_option())(speed_options(function)))


def given(*names: str) -> list[str]:
    """Those of some options that are on the command line."""
    context = click.get_current_context()
    return [
        name
        for option in context.command.params
        for name in option.opts
        if name in names and _is_typed(context, option)
    ]
