"""Options that several commands share."""

import csv
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from elmo_cli.cli.answers import ROW_FORMATS
from elmo_cli.cli.command import Decorator, Option, option_group
from elmo_cli.outputs.output_formats import COMPRESSIONS, DTYPES, LAYOUTS
from elmo_cli.settings import DEFAULT_BATCH_SIZE, INITIAL_STATES, NAMED_LAYERS, POOLINGS, PRECISIONS
from elmo_cli.text.input_formats import FORMATS
from elmo_cli.text.tokenizers import TOKENIZERS

PATH = click.Path(readable=False, allow_dash=True, path_type=str)
"""A file, folder or `-`, completed by TAB. The function that reads it reports its errors."""


def option(name: str, *names: str, **settings: Any) -> Decorator:
    """Add an option, by its name and the name of its value: `--shard I/N`."""
    name, _, metavar = name.partition(" ")
    settings = {"cls": Option, "show_default": True, "metavar": metavar or None, **settings}
    return click.option(name, *names, **settings)


flag = partial(option, is_flag=True)
path_option = partial(option, type=PATH)


def choice(name: str, values: Sequence[str], *names: str, **settings: Any) -> Decorator:
    """Add an option with a fixed set of values; it may have further names."""
    return option(name, *names, type=click.Choice(values), **settings)


def count(*names: str, least: int = 1, **settings: Any) -> Decorator:
    """Add an option with a whole number."""
    return option(*names, type=click.IntRange(least), metavar="N", **settings)


def complete_models(_ctx: Any, _parameter: Any, start: str) -> list[CompletionItem]:
    """Return the models whose names begin with `start`, and let the shell add files."""
    from elmo_cli.pretrained.registry import MODELS

    names = [model.name for model in MODELS if model.name.startswith(start)]
    return [CompletionItem(start, type="file"), *map(CompletionItem, names)]


def complete_values(*values: str) -> Callable[..., list[str]]:
    """Return a `shell_complete` that offers values. Users may type other values."""
    return lambda _ctx, _parameter, start: [each for each in values if each.startswith(start)]


def json_option(what: str) -> Decorator:
    """Add --json."""
    return flag("--json", "as_json", help=f"Print JSON, {what}.")


format_option = partial(
    choice,
    "--format",
    ROW_FORMATS,
    "row_format",
    excludes="--json",
    help="Print rows with a header as tsv or csv, or an object per row as json.",
)
overwrite_option = partial(flag, "--overwrite", help="Replace OUT if it exists.")
ignore_case_option = partial(flag, "--ignore-case", help="Find words in any case.")


def words_option(default: str = "", **settings: Any) -> Decorator:
    """Add --words, a file of target words."""
    lines = "one per line, or with their forms: lemma,form,form"
    text = f"Target words, {lines}; or a table with the columns word and form.{default}"
    return path_option("--words FILE", help=text, **settings)


def figure_options(what: str, **settings: Any) -> Decorator:
    """Add --plot and --overwrite."""
    text = f"Draw {what} to OUT: .svg, .png, .pdf or .html."
    figure = path_option("--plot OUT", help=text, **settings)
    return option_group("Options", figure, overwrite_option(requires="--plot"))


class _MeanLayers(Option):
    """--mean-layers, which was called --layers. Both names and their variables count."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the variable, or else of the variable of the old name."""
        value = super().resolve_envvar_value(ctx)
        old_name = str(self.envvar).replace("MEAN_LAYERS", "LAYERS")
        return value or os.environ.get(old_name) or None


mean_layers_option = partial(
    option,
    "--mean-layers N,...",
    "--layers",
    "layers",
    cls=_MeanLayers,
    help="Layers whose mean is taken. [default: all but layer 0, which knows spelling only]",
)
softmax_option = partial(
    path_option,
    "--softmax-file FILE|URL",
    help="softmax.hdf5 of a model. [default: softmax.hdf5 next to the weights]",
)
device_option = partial(
    option,
    "--device DEVICE",
    "--cuda",
    "--cuda-device",
    default="cpu",
    shell_complete=complete_values("auto", "cpu", "cuda", "mps"),
    help="Device: cpu, cuda:N or N, mps, or auto (a CUDA GPU if there is one). So far, GPUs were "
    "tested by emulation only.",
)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise click.BadParameter(f"expected numbers separated by commas, found {text!r}") from None


file_options = option_group(
    "Model",
    option(
        "--model NAME|FOLDER",
        shell_complete=complete_models,
        excludes="--options-file",
        help="Model of `elmo models`, hf:OWNER/NAME, or the folder or zip file of a model. "
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
        help="weights.hdf5 or weights.safetensors of a model; requires --options-file.",
    ),
    path_option(
        "--vocabulary-file FILE",
        help="Words of a word-level model or of a softmax. [default: vocab.txt next to the "
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
        "the batch before, as in AllenNLP). [default: zero; warm for a model of "
        "`elmo train --state carry`]",
    ),
)
precision_option = choice(
    "--precision",
    PRECISIONS,
    default="float32",
    help="Precision of the computation. int8 requires AVX-512 VNNI, tf32 an NVIDIA GPU.",
)
speed_options = option_group("Speed", device_option(), precision_option)
dtype_option = choice("--dtype", DTYPES, default="float32", help="Data type of the stored values.")


def layer_options(default: str) -> Decorator:
    """Add --layers, --mix and --gamma, as `Selection`."""
    return option_group(
        "Output",
        option(
            "--layers CHOICE",
            shell_complete=complete_values(*NAMED_LAYERS, "lstm1", "lstm2"),
            help="Layers to write: all, top, average, sum, word_emb, lstm1, lstm2, or numbers "
            f"such as 0,2. [default: {default}]",
        ),
        option(
            "--mix S0,S1,...",
            type=_numbers,
            excludes="--layers",
            help="Weighted sum of all layers: the scalar parameters that a task has learned, "
            "before the softmax.",
        ),
        option("--gamma G", type=float, requires="--mix", help="Scale of --mix. [default: 1]"),
    )


selection_options = option_group(
    "Output",
    layer_options("all"),
    choice(
        "--pooling",
        POOLINGS,
        help="One vector per sentence from its tokens; zeros for a blank line. [default: one "
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
    content: str = "text, or with a list of tokens",
    default: str = "text, or tokens if it has lists",
    **settings: Any,
) -> Decorator:
    """Add --text-column, whose help names its content and its default."""
    text = f"Column or field with the {content}; data.text is a nested field. [default: {default}]"
    return option("--text-column NAME", help=text, **settings)


def split_names(text: str) -> tuple[str, ...]:
    """Split names at commas; quotes may enclose a name with a comma, as in CSV."""
    names = tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    if not all(names) or not names:
        raise click.BadParameter(f"expected names separated by commas, found {text!r}")
    return names


keep_columns_option = option(
    "--keep-columns NAME,...|all",
    type=split_names,
    help="Other columns of the input that the rows of the output repeat. [default: none]",
)


def input_format_options(source: str = "the text", *column: str, **settings: Any) -> Decorator:
    """Add --input-format, of a source, and --text-column, with the content of the column."""
    suffixes = [
        f"{name} for {', '.join(each.suffixes)}" for name, each in FORMATS.items() if name != "text"
    ]
    return option_group(
        "Text",
        choice(
            "--input-format",
            tuple(FORMATS),
            help=f"Format of {source}. [default: by its content, or by its suffix: "
            f"{'; '.join(suffixes)}; also with .gz, .bz2, .xz or .zst; else text]",
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
            help="Character between the cells of csv or tsv, or tab. [default: by the header]",
            **settings,
        ),
        choice(
            "--quotes",
            ("csv", "none"),
            help="Quotes in csv or tsv: they enclose cells, or none, they are text. [default: "
            "csv, but a cell of tsv ends in its line]",
            **settings,
        ),
    )


id_column_option = partial(
    option,
    "--id-column NAME",
    help="Column or field with the id of each record. [default: id, if there is one]",
)


BY_INPUT: Final = "moses for tables, whitespace for other input"  # default of --tokenizer


def tokenizer_options(default: str, **settings: Any) -> Decorator:
    """Add --tokenizer and --language, as `TextSettings`; `default` is for the help."""
    return option_group(
        "Text",
        option(
            "--tokenizer NAME",
            shell_complete=complete_values(*TOKENIZERS),
            show_default=False,
            help="Tokenizer: whitespace, moses, spacy, or residues (every letter is a token). "
            "Append a language code to moses or spacy, as in spacy:de. [default: the tokenizer of "
            f"the model's training, else {default}]",
            **settings,
        ),
        option(
            "--language CODE",
            help="Language of the text, such as fr. [default: the model's language, else en]",
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
            help="Compute each sentence of a text by itself. The sentences of a text file are "
            "records of their own; those of a row of a table remain one record.",
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
            help="Column with one word per row. Consecutive rows with the same id are one text.",
            **settings,
        ),
        cell_options(**settings),
        id_column_option(**settings),
        flag(
            "--paragraphs",
            help="Join the lines of a text until a blank line: for hard-wrapped text.",
            **settings,
        ),
        splitting_options(default, **settings),
    )


input_options = option_group(
    "Input",
    text_options(BY_INPUT),
    flag(
        "--skip-errors",
        help="Give a line that cannot be read, or is too long for memory, no tokens.",
    ),
    option(
        "--shard I/N",
        help="Embed every N-th line from the I-th. A pattern of the N outputs is read as one file.",
    ),
)


def output_options(formats: Sequence[str]) -> Decorator:
    """Add the options of an output file, as `OutputSettings`, and --normalize."""
    return option_group(
        "Output",
        flag("--normalize", help="Scale every vector to length 1."),
        choice(
            "--format",
            formats,
            "file_format",
            help="Format of the output. [default: by its suffix, else hdf5]",
        ),
        choice(
            "--layout",
            LAYOUTS,
            help="Layout of HDF5: allennlp, one dataset per line, or packed, one dataset for all, "
            "for large corpora. [default: allennlp]",
        ),
        keep_columns_option,
        choice("--compression", COMPRESSIONS, help="Compression of HDF5. [default: none]"),
        flag("--overwrite", help="Replace an output, or an unfinished run that differs."),
    )


def language_model_options(function: Any) -> Any:
    """Add the options of a model with a softmax, and of its computation, as `ModelSettings`."""
    return model_options(option_group("Model", softmax_option())(speed_options(function)))
