"""Options that several commands share.

Each is a function that returns a decorator: `@shared_options.speed_options()`. Most are
made from the fields of `elmo_cli.options`, which have their help, choices and default.
`settings_from(TextSettings, values)` puts their values together again.
"""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import click

from elmo_cli.cli.command import Decorator, option_group
from elmo_cli.cli.option_conditions import Option
from elmo_cli.cli.parameter_types import (
    OUTPUT_PATH,
    PATH,
    NameChoice,
    WholeNumber,
    names_with_commas,
    numbers_with_commas,
    one_character,
)
from elmo_cli.cli.row_printer import ROW_FORMATS
from elmo_cli.cli.value_completion import (
    complete_columns,
    complete_models,
    complete_values,
)
from elmo_cli.errors.messages import Message, Template
from elmo_cli.options.fields import info_of
from elmo_cli.options.layers import NAMED_LAYERS
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, ModelSettings
from elmo_cli.options.output import OutputSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO, TOKENIZERS

# Options of any kind


def command_option(name: str, *names: str, **arguments: Any) -> Decorator:
    """Add an option, by its name and the name of its value: `--shard I/N`."""
    name, _, metavar = name.partition(" ")
    arguments = {
        "cls": Option,
        "show_default": True,
        "metavar": metavar or None,
        **arguments,
    }
    return click.option(name, *names, **arguments)


flag = partial(command_option, is_flag=True)
path_option = partial(command_option, type=PATH)


def choice(
    name: str, values: Sequence[str], *names: str, **arguments: Any
) -> Decorator:
    """Add an option with a fixed set of values; it may have further names."""
    return command_option(name, *names, type=NameChoice(values), **arguments)


def count(*names: str, least: int = 1, **arguments: Any) -> Decorator:
    """Add an option with a whole number."""
    return command_option(*names, type=WholeNumber(least), metavar="N", **arguments)


def field_option(
    kind: Any,
    name: str,
    *,
    help: str | None = None,
    default_text: str | None = None,
    names: Sequence[str] = (),
    **arguments: Any,
) -> Decorator:
    """Add the option of a field of a dataclass, such as `TextSettings`.

    `help` and `default_text` replace those of the field. The help shows `names`, such
    as `-m`, but not `aliases`, which are further names too.
    """
    info = info_of(kind, name)
    [field] = [each for each in fields(kind) if each.name == name]
    if default_text is None:
        default_text = info.default_text
    arguments["help"] = Message(
        Template(info.help if help is None else help)
    ).as_options()
    arguments["default_text"] = Message(Template(default_text)).as_options()
    long_name = info.name or f"--{name.replace('_', '-')}"
    names = [long_name, *names, name]
    if field.default is False:
        return flag(*names, **arguments)
    if field.default not in (None, ()):
        arguments.setdefault("default", field.default)
    if info.choices:
        arguments.setdefault("type", NameChoice(info.choices))
    if info.value:
        arguments.setdefault("metavar", info.value)
    return command_option(*names, **arguments)


# Model


device_option = partial(
    field_option,
    ModelSettings,
    "device",
    aliases=("--cuda", "--cuda-device"),
    shell_complete=complete_values("auto", "cpu", "cuda", "mps"),
)
precision_option = partial(field_option, ModelSettings, "precision")
batch_tokens_option = partial(
    field_option, ModelSettings, "batch_tokens", type=WholeNumber(1), metavar="N"
)
batch_size_option = partial(
    count,
    "--batch-size",
    default=DEFAULT_BATCH_SIZE,
    help="Sentences per batch with --state carry.",
)
softmax_option = partial(
    field_option, ModelSettings, "softmax_file", type=PATH, hidden=True
)


def speed_options() -> Decorator:
    """Add --device and --precision."""
    return option_group("Speed", device_option(), precision_option())


def _model_option(**arguments: Any) -> Decorator:
    """Add --model."""
    return field_option(
        ModelSettings,
        "model",
        names=("-m",),
        shell_complete=complete_models,
        excludes=["--options-file"],
        **arguments,
    )


def _single_files(*, shows_files: bool) -> Decorator:
    """Add the options for the files of a model, which most helps leave out."""
    arguments: dict[str, Any] = {"type": PATH, "hidden": not shows_files}
    return option_group(
        "Model",
        field_option(
            ModelSettings, "options_file", requires=["--weight-file"], **arguments
        ),
        field_option(
            ModelSettings, "weight_file", requires=["--options-file"], **arguments
        ),
        field_option(ModelSettings, "vocabulary_file", **arguments),
    )


def file_options(**arguments: Any) -> Decorator:
    """Add --model, and the hidden options for its files."""
    model = _model_option(**arguments)
    return option_group("Model", model, _single_files(shows_files=False))


def _state_option(*, may_carry: bool) -> Decorator:
    """Add --state. If it may not carry, its help leaves that out."""
    if may_carry:
        return field_option(ModelSettings, "state")
    return field_option(
        ModelSettings,
        "state",
        type=NameChoice(["zero", "warm"], refused=["carry"]),
        help="Initial LSTM state of a sentence: zero or warm (after a fixed text).",
    )


def model_options(
    *, shows_files: bool = False, may_carry: bool = True, **arguments: Any
) -> Decorator:
    """Add --model, --state, and the options for the files of the model."""
    return option_group(
        "Model",
        _model_option(**arguments),
        _state_option(may_carry=may_carry),
        _single_files(shows_files=shows_files),
    )


def language_model_options(*, may_carry: bool = True) -> Decorator:
    """Add the options of a model with a softmax, and of its computation."""

    def add(function: Any) -> Any:
        softmax = option_group("Model", softmax_option())
        model = model_options(
            may_carry=may_carry,
            help="Model with a softmax: mini, original, original-5.5b, hf:OWNER/NAME, "
            "or the path of one that `elmo train` or `elmo convert` wrote.",
        )
        return model(softmax(speed_options()(function)))

    return add


# Text


def text_column_option(**arguments: Any) -> Decorator:
    """Add --text-column."""
    text_column = field_option(
        TextSettings, "text_column", shell_complete=complete_columns, **arguments
    )
    return option_group("Input", text_column)


keep_columns_option = partial(
    field_option,
    TextSettings,
    "keep_columns",
    type=names_with_commas,
    shell_complete=complete_columns,
)
id_column_option = partial(
    field_option, TextSettings, "id_column", shell_complete=complete_columns
)


def input_format_option(**arguments: Any) -> Decorator:
    """Add --input-format."""
    input_format = field_option(TextSettings, "input_format", **arguments)
    return option_group("Input", input_format)


def cell_options(*, needs_header: bool = False, **arguments: Any) -> Decorator:
    """Add --delimiter and --quotes, and --no-header unless a table needs a header.

    Helps leave them out, because they are rarely needed: `elmo help formats` has them.
    """
    arguments["hidden"] = True
    options = [
        field_option(TextSettings, "delimiter", type=one_character, **arguments),
        field_option(TextSettings, "quotes", **arguments),
    ]
    if not needs_header:
        options.append(field_option(TextSettings, "no_header", **arguments))
    return option_group("Input", *options)


def tokenizer_options(
    *,
    language_help: str = "Language for the tokenizer, such as fr or French.",
    default_text: str | None = None,
    language_default: str | None = None,
    **arguments: Any,
) -> Decorator:
    """Add --tokenizer and --language."""
    return option_group(
        "Input",
        field_option(
            TextSettings,
            "tokenizer",
            default_text=default_text,
            shell_complete=complete_values(AUTO, *TOKENIZERS),
            **arguments,
        ),
        field_option(
            TextSettings,
            "language",
            help=language_help,
            default_text=language_default,
            **arguments,
        ),
    )


def splitting_options(**arguments: Any) -> Decorator:
    """Add the options of `tokenizer_options`, and --split-sentences."""
    return option_group(
        "Input",
        tokenizer_options(
            language_help=info_of(TextSettings, "language").help, **arguments
        ),
        field_option(TextSettings, "split_sentences", **arguments),
    )


def text_options(**arguments: Any) -> Decorator:
    """Add all options for how a text is read."""
    return option_group(
        "Input",
        splitting_options(**arguments),
        field_option(TextSettings, "paragraphs", **arguments),
        input_format_option(**arguments),
        text_column_option(**arguments),
        id_column_option(**arguments),
        field_option(
            TextSettings,
            "word_column",
            excludes=["--text-column"],
            shell_complete=complete_columns,
            **arguments,
        ),
        cell_options(**arguments),
    )


def input_options() -> Decorator:
    """Add the options of `text_options`, --skip-errors and --shard."""
    return option_group(
        "Input",
        text_options(),
        field_option(TextSettings, "skip_errors"),
        field_option(TextSettings, "shard"),
    )


# Selection of activations


mean_layers_option = partial(
    command_option,
    "--layers N,...",
    "layers",
    shell_complete=complete_values("average", "top", "0", "1", "2", "1,2"),
    help=(
        "Layers to average: numbers such as 2 or 1,2, or names such as top. See `elmo "
        "help layers`."
    ),
    default_text="all but layer 0, which only reflects spelling",
)
stored_layers_option = partial(
    mean_layers_option,
    default_text="the layers of the file, without layer 0 if there are others",
)
dtype_option = partial(field_option, OutputSettings, "dtype")


def layers_option(default: str) -> Decorator:
    """Add --layers of the layers to write, with its default for the help."""
    return field_option(
        SelectionSettings,
        "layers",
        default=None,
        default_text=default,
        shell_complete=complete_values(*NAMED_LAYERS, "lstm1", "lstm2"),
    )


def mix_options() -> Decorator:
    """Add --mix and --gamma."""
    return option_group(
        "Output",
        field_option(
            SelectionSettings, "mix", type=numbers_with_commas, excludes=["--layers"]
        ),
        field_option(
            SelectionSettings, "gamma", type=float, requires=["--mix"], hidden=True
        ),
    )


def selection_options() -> Decorator:
    """Add --layers and --pooling."""
    return option_group(
        "Output", layers_option("all"), field_option(SelectionSettings, "pooling")
    )


# Output


def overwrite_option(
    *, help: str = "Replace OUTPUT if it exists.", **arguments: Any
) -> Decorator:
    """Add --overwrite, for an output that is not resumed."""
    overwrite = field_option(OutputSettings, "overwrite", help=help, **arguments)
    return option_group("Output", overwrite)


def row_options(
    default: str = "tsv",
    *,
    help: str = "Format of the rows: tsv or csv with a header, or jsonl (JSON lines).",
    **arguments: Any,
) -> Decorator:
    """Add --format, with its default for the help, and --json: --format jsonl."""
    formats = command_option(
        "--format",
        "-f",
        "row_format",
        type=NameChoice(ROW_FORMATS),
        excludes=["--json"],
        help=help,
        default_text=default,
        **arguments,
    )
    as_json = flag("--json", "as_json", hidden=True, help="Same as --format jsonl.")
    return option_group("Output", formats, as_json)


def output_options(formats: Sequence[str], *others: Decorator) -> Decorator:
    """Add the options of an output file, of its values, and --mix."""
    return option_group(
        "Output",
        field_option(
            OutputSettings, "file_format", names=("-f",), type=NameChoice(formats)
        ),
        field_option(OutputSettings, "overwrite"),
        dtype_option(),
        *others,
        field_option(OutputSettings, "layout"),
        field_option(OutputSettings, "compression"),
        field_option(SelectionSettings, "normalize"),
        mix_options(),
    )


def figure_options(what: str, **arguments: Any) -> Decorator:
    """Add --plot and --overwrite."""
    text = f"Draw {what} to OUTPUT (.svg, .png, .pdf or .html)."
    figure = path_option("--plot OUTPUT", type=OUTPUT_PATH, help=text, **arguments)
    overwrite = overwrite_option(
        requires=["--plot"], help="Replace OUTPUT of --plot if it exists."
    )
    return option_group("Output", figure, overwrite)


# Target words


def words_option(**arguments: Any) -> Decorator:
    """Add --words, a file of target words."""
    text = (
        "File of target words, one per line, perhaps with further forms "
        "(say,said,says); or a table with a column word and, optionally, form. A csv "
        "without word is read as lines."
    )
    return path_option("--words FILE", help=text, **arguments)
