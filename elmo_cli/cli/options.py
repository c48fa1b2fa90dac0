"""Options that several commands share, and the completion of their values with TAB."""

import csv
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from elmo_cli.cli.answers import ROW_FORMATS
from elmo_cli.cli.command import OUTPUT, Decorator, Option, option_group
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, INITIAL_STATES, PRECISIONS
from elmo_cli.options.output import COMPRESSIONS, DTYPES, LAYOUTS
from elmo_cli.options.selection import NAMED_LAYERS, POOLINGS
from elmo_cli.options.text import DEFAULT_SETTINGS
from elmo_cli.options.tokenizer_names import TOKENIZERS
from elmo_cli.records.formats import FORMATS, find_format
from elmo_cli.text.sources import Source

PATH = click.Path(readable=False, allow_dash=True, path_type=str)
"""A file, folder or `-`, completed by TAB. The function that reads it reports its errors."""
_SOURCES: Final = (
    "pairs",
    "queries",
    "corpus",
    "file",
    "text",
    "input_file",
)  # have columns


def complete_models(_ctx: Any, _parameter: Any, start: str) -> list[CompletionItem]:
    """Return the models whose names begin with `start`, and let the shell add files."""
    from elmo_cli.pretrained.registry import MODELS

    names = [model.name for model in MODELS if model.name.startswith(start)]
    return [CompletionItem(start, type="file"), *map(CompletionItem, names)]


def complete_values(*values: str) -> Callable[..., list[str]]:
    """Return a `shell_complete` that offers values. Users may type other values."""
    return lambda _ctx, _parameter, start: [
        each for each in values if each.startswith(start)
    ]


def complete_columns(ctx: click.Context, _parameter: Any, start: str) -> list[str]:
    """Return the columns of the input that begin with `start`, or with its part after a comma."""
    before, comma, begin = start.rpartition(",")
    # click leaves arguments in `ctx.args` if the last option has no value yet.
    paths = [*map(ctx.params.get, _SOURCES), *ctx.args]
    for path in filter(os.path.isfile, filter(None, paths)):
        with suppress(Exception):  # Completion is silent.
            names = _read_columns(path, ctx)
            return [
                f"{before}{comma}{name}" for name in names if name.startswith(begin)
            ]
    return []


def _read_columns(path: str, ctx: click.Context) -> list[str]:
    with Source(path) as source:
        found = find_format(source, ctx.params.get("input_format"))
        return found.column_names(source, DEFAULT_SETTINGS)


def option(name: str, *names: str, **settings: Any) -> Decorator:
    """Add an option, by its name and the name of its value: `--shard I/N`."""
    name, _, metavar = name.partition(" ")
    settings = {
        "cls": Option,
        "show_default": True,
        "metavar": metavar or None,
        **settings,
    }
    return click.option(name, *names, **settings)


flag = partial(option, is_flag=True)
path_option = partial(option, type=PATH)


class _Choice(click.Choice):  # type: ignore[type-arg]  # It is not generic before click 8.2.
    """Fixed set of values. `json` is the old name of `jsonl`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        is_old_name = (
            value == "json" and "json" not in self.choices and "jsonl" in self.choices
        )
        return str(super().convert("jsonl" if is_old_name else value, param, ctx))


def choice(name: str, values: Sequence[str], *names: str, **settings: Any) -> Decorator:
    """Add an option with a fixed set of values; it may have further names."""
    return option(name, *names, type=_Choice(values), **settings)


def count(*names: str, least: int = 1, **settings: Any) -> Decorator:
    """Add an option with a whole number."""
    return option(*names, type=click.IntRange(least), metavar="N", **settings)


def row_options(**settings: Any) -> Decorator:
    """Add --format, and --json, which is --format jsonl."""
    formats = choice(
        "--format",
        ROW_FORMATS,
        "-f",
        "row_format",
        excludes="--json",
        help="Table with a header, tsv (the default of tables) or csv, or JSON lines (jsonl).",
        **settings,
    )
    as_json = flag("--json", "as_json", help="Same as --format jsonl.")
    return option_group("Options", formats, as_json)


overwrite_option = partial(flag, "--overwrite", help="Replace OUTPUT if it exists.")
ignore_case_option = partial(flag, "--ignore-case", help="Ignore the case of words.")


def output_option(name: str = "OUTPUT") -> Decorator:
    """Add -o, which gives the last argument of a command; see `Command.parse_args`."""
    text = f"Give {name} as an option, not as the last argument."
    given = click.option("--output", "-o", OUTPUT, type=PATH, metavar=name, help=text)
    return option_group("Options", given)


def words_option(default: str = "", **settings: Any) -> Decorator:
    """Add --words, a file of target words."""
    lines = "one per line, optionally with its forms: lemma,form,form"
    text = f"Target words, {lines}; or a table with the columns word and form.{default}"
    return path_option("--words FILE", help=text, **settings)


def figure_options(what: str, **settings: Any) -> Decorator:
    """Add --plot and --overwrite."""
    text = f"Draw {what} to OUTPUT: .svg, .png, .pdf or .html."
    figure = path_option("--plot OUTPUT", help=text, **settings)
    return option_group("Options", figure, overwrite_option(requires="--plot"))


mean_layers_option = partial(
    option,
    "--mean-layers N,...",
    "layers",
    aliases=("--layers", "--layer"),
    shell_complete=complete_values("all", "top", "0", "1", "2", "1,2"),
    help="Use the mean of these layers. [default: all but layer 0, which reflects spelling only]",
)
softmax_option = partial(
    path_option,
    "--softmax-file FILE|URL",
    help="softmax.hdf5 of the model. [default: next to the weights]",
)
device_option = partial(
    option,
    "--device DEVICE",
    aliases=("--cuda", "--cuda-device"),
    default="cpu",
    shell_complete=complete_values("auto", "cpu", "cuda", "mps"),
    help="Device: cpu, cuda, cuda:N or N, mps, or auto (a CUDA GPU if there is one).",
)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise click.BadParameter(
            f"expected numbers separated by commas, found {text!r}"
        ) from None


file_options = option_group(
    "Model",
    option(
        "--model NAME|FOLDER",
        "-m",
        shell_complete=complete_models,
        excludes="--options-file",
        help="A model listed by `elmo models`, hf:OWNER/NAME, or a folder or zip file. "
        "[default: ELMO_MODEL, else the bundled model]",
    ),
    path_option(
        "--options-file FILE|URL",
        requires="--weight-file",
        help="options.json of a model; requires --weight-file.",
    ),
    path_option(
        "--weight-file FILE|URL",
        requires="--options-file",
        help="weights.hdf5 or weights.safetensors; requires --options-file.",
    ),
    path_option(
        "--vocabulary-file FILE",
        help="Vocabulary of a word-level model or a softmax. [default: vocab.txt next to the "
        "weights]",
    ),
)
model_options = option_group(
    "Model",
    file_options,
    choice(
        "--state",
        INITIAL_STATES,
        help="Initial LSTM state of each sentence: zero, warm (after a fixed text) or carry (from "
        "the previous batch, as in AllenNLP). [default: zero, or warm for a model trained with "
        "--state carry]",
    ),
)
precision_option = choice(
    "--precision",
    PRECISIONS,
    default="float32",
    help="Precision of the computation. int8 needs AVX-512 VNNI, and tf32 an NVIDIA GPU.",
)
speed_options = option_group("Speed", device_option(), precision_option)
dtype_option = choice(
    "--dtype", DTYPES, default="float32", help="Data type of the stored values."
)


def layer_options(default: str) -> Decorator:
    """Add --layers, --mix and --gamma, as `Selection`."""
    return option_group(
        "Output",
        option(
            "--layers CHOICE",
            aliases=("--layer",),
            shell_complete=complete_values(*NAMED_LAYERS, "lstm1", "lstm2"),
            help="Layers to write: all, top, average, sum, word_emb, lstm1, lstm2, or numbers "
            f"such as 0,2. [default: {default}]",
        ),
        option(
            "--mix S0,S1,...",
            type=_numbers,
            excludes="--layers",
            help="Write a weighted sum of all layers. The weights are the softmax of S0,S1,..., "
            "which a task has learned.",
        ),
        option(
            "--gamma G",
            type=float,
            requires="--mix",
            help="Scale of --mix. [default: 1]",
        ),
    )


selection_options = option_group(
    "Output",
    layer_options("all"),
    choice(
        "--pooling",
        POOLINGS,
        help="Combine the vectors of a sentence into one; zeros for a blank line. [default: one "
        "vector per token]",
    ),
    dtype_option,
)
batch_size_option = partial(
    count,
    "--batch-size",
    default=DEFAULT_BATCH_SIZE,
    help="Sentences per batch with --state carry.",
)
batch_tokens_option = count(
    "--batch-tokens",
    help="Maximum number of tokens per batch. [default: 8192 on the CPU, 32768 on a GPU]",
)


def text_column_option(
    content: str = "text, or a list of tokens",
    default: str = "text or tokens",
    **settings: Any,
) -> Decorator:
    """Add --text-column, whose help names its content and its default."""
    text = f"Column or field with the {content}. [default: {default}]"
    settings = {"shell_complete": complete_columns, **settings}
    return option("--text-column NAME", help=text, **settings)


def split_names(text: str) -> tuple[str, ...]:
    """Split names at commas; quotes may enclose a name with a comma, as in CSV."""
    names = tuple(
        name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])
    )
    if not all(names) or not names:
        raise click.BadParameter(f"expected names separated by commas, found {text!r}")
    return names


keep_columns_option = option(
    "--keep-columns NAME,...|all",
    type=split_names,
    shell_complete=complete_columns,
    help="Copy these columns of the input to the output. [default: none]",
)


def input_format_options(*column: str, **settings: Any) -> Decorator:
    """Add --input-format, and --text-column, with the content and the default of the column."""
    return option_group(
        "Text",
        choice(
            "--input-format",
            tuple(FORMATS),
            metavar="FORMAT",
            help="Format of the input: see `elmo help formats`.",
            **settings,
        ),
        text_column_option(*column, **settings),
    )


def _delimiter(text: str) -> str:
    delimiter = {"tab": "\t", r"\t": "\t"}.get(text, text)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.BadParameter(f"expected one character, or tab, found {text!r}")
    return delimiter


def cell_options(**settings: Any) -> Decorator:
    """Add --delimiter and --quotes, as `TextSettings`."""
    return option_group(
        "Text",
        option(
            "--delimiter CHARACTER",
            type=_delimiter,
            help="Delimiter of csv or tsv: one character, or tab. [default: by the header]",
            **settings,
        ),
        choice(
            "--quotes",
            ("csv", "none"),
            help="Meaning of quotes in csv or tsv: they enclose cells (csv), or are text (none).",
            **settings,
        ),
    )


id_column_option = partial(
    option,
    "--id-column NAME",
    shell_complete=complete_columns,
    help="Column or field with the id of each record. [default: id, if it exists]",
)


BY_INPUT: Final = "by format"  # default of --tokenizer


def tokenizer_options(default: str, **settings: Any) -> Decorator:
    """Add --tokenizer and --language, as `TextSettings`; `default` is for the help."""
    return option_group(
        "Text",
        option(
            "--tokenizer NAME",
            shell_complete=complete_values(*TOKENIZERS),
            help="whitespace, moses, spacy (spacy:de) or residues. [default: the model's, else "
            f"{default}]",
            **settings,
        ),
        option(
            "--language CODE",
            help="Language of the text, such as fr. [default: the model's, else en]",
            **settings,
        ),
    )


def splitting_options(default: str, **settings: Any) -> Decorator:
    """Add the options of `tokenizer_options`, and --split-sentences."""
    return option_group(
        "Text",
        tokenizer_options(default, **settings),
        flag(
            "--split-sentences",
            help="Split each text into sentences, and compute each sentence by itself.",
            **settings,
        ),
    )


def text_options(default: str, **settings: Any) -> Decorator:
    """Add all options for how a text is read; `default` is its tokenizer."""
    return option_group(
        "Text",
        input_format_options(**settings),
        option(
            "--word-column NAME",
            excludes="--text-column",
            shell_complete=complete_columns,
            help="Column with one word per row. Rows with the same id form one text.",
            **settings,
        ),
        cell_options(**settings),
        id_column_option(**settings),
        flag(
            "--paragraphs",
            help="Join hard-wrapped lines up to the next blank line.",
            **settings,
        ),
        splitting_options(default, **settings),
    )


input_options = option_group(
    "Input",
    text_options(BY_INPUT),
    flag(
        "--skip-errors",
        help="Leave the output of a line empty if it cannot be read or computed.",
    ),
    option(
        "--shard I/N",
        help="Embed every N-th line, beginning with the I-th, as in 3/16.",
    ),
)


def output_options(formats: Sequence[str], *others: Decorator) -> Decorator:
    """Add the options of an output file, as `OutputSettings`, and --normalize."""
    return option_group(
        "Output",
        flag("--normalize", help="Scale every vector to length 1."),
        choice(
            "--format",
            formats,
            "-f",
            "file_format",
            help="Format of OUTPUT. [default: by its suffix, else hdf5]",
        ),
        *others,
        choice(
            "--layout",
            LAYOUTS,
            help="Layout of HDF5: allennlp (one dataset per line) or packed (one dataset, for "
            "large corpora). [default: allennlp]",
        ),
        keep_columns_option,
        choice(
            "--compression", COMPRESSIONS, help="Compression of HDF5. [default: none]"
        ),
        flag(
            "--overwrite",
            help="Replace OUTPUT, or an unfinished run with other options.",
        ),
        output_option(),
    )


def language_model_options(function: Any) -> Any:
    """Add the options of a model with a softmax, and of its computation, as `ModelSettings`."""
    return model_options(
        option_group("Model", softmax_option())(speed_options(function))
    )
