"""Settings of a run: which model, which text, which layers, which output.

Each dataclass is the one place where its options are declared, with their choices, defaults and
checks. The command line builds them from its options, `ElmoEmbedder` from its keyword arguments,
and output files record them as attributes. Importing this module loads neither
torch nor numpy, so that `elmo embed --help` is fast.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, check_at_least, check_choice, shown
from elmo_cli.outputs.output_formats import (
    FORMATS_WITH_ROWS,
    STANDARD_OUTPUT,
    OutputSettings,
)
from elmo_cli.text.input_formats import (
    CSV,
    FASTA,
    PARQUET,
    TEXT,
    TSV,
    InputFormat,
    ReadOptions,
    Records,
    find_format,
    open_records,
)
from elmo_cli.text.records import Shard, parse_shard
from elmo_cli.text.report import TokenLimit
from elmo_cli.text.sources import check_source, open_lines
from elmo_cli.text.tables import column_types, has_integer_ids
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

if TYPE_CHECKING:
    from elmo_cli.pretrained.files import ModelFiles
    from elmo_cli.pretrained.find import ResolvedModel

InitialState = Literal["zero", "warm", "carry"]
"""Initial LSTM state of a sentence: zero, the state after a fixed text, or carried over."""
INITIAL_STATES: Final = get_args(InitialState)
Precision = Literal["float32", "bfloat16", "float16", "int8"]
PRECISIONS: Final = get_args(Precision)
Direction = Literal["forward", "backward", "both"]
"""Context of a prediction: the tokens before it, the tokens after it, or each in turn."""
DIRECTIONS: Final = get_args(Direction)
POOLINGS: Final = ("mean", "max", "first", "last")
NAMED_LAYERS: Final = ("all", "top", "average", "sum", "word_emb")
"""Choices of layers that every model has; numbers and lstm1, lstm2, ... are others."""
DEFAULT_BATCH_SIZE: Final = 64
"""Sentences per batch where the state is carried over. It changes results only there."""
ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""
_DELIMITERS: Final = {CSV.name: ",", TSV.name: "\t"}
_Settings = TypeVar("_Settings")
_MAX_FLOAT32: Final = 3.4028234663852886e38


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model: its files, initial state, precision and device."""

    model: "str | Path | ModelFiles | None" = None
    """Name, folder or zip file of a model, or its files. None is the default model."""
    options_file: str | Path | None = None
    weight_file: str | Path | None = None
    vocabulary_file: str | Path | None = None
    softmax_file: str | Path | None = None
    state: InitialState | None = None
    """None is the initial state that the model was trained with, as far as it is fixed."""
    precision: Precision = "float32"
    device: str | int = "cpu"
    """`auto`, `cpu`, `cuda`, `cuda:N`, `mps`, or the number of a GPU; -1 is the CPU."""
    batch_tokens: int | None = None
    """Maximum number of tokens per batch. None is the default of the device."""

    def __post_init__(self) -> None:
        if self.state is not None:
            check_choice("state", self.state, INITIAL_STATES)
        check_choice("precision", self.precision, PRECISIONS)
        if self.batch_tokens is not None:
            check_at_least("batch_tokens", self.batch_tokens, 1)

    @cached_property
    def resolved(self) -> "ResolvedModel":
        """Language, tokenizer and local files of the model; see `resolve_model`."""
        from elmo_cli.pretrained.find import resolve_model

        return resolve_model(
            self.model,
            self.options_file,
            self.weight_file,
            self.vocabulary_file,
            self.softmax_file,
        )

    def find_files(self, *, with_softmax: bool = False) -> "ModelFiles":
        """Find the model's files, and download them if they are missing; see `choose_model`."""
        from elmo_cli.pretrained.find import choose_model

        if (files := self.resolved.files) is not None:
            return choose_model(files, with_softmax=with_softmax)
        return choose_model(
            self.model,
            self.options_file,
            self.weight_file,
            self.vocabulary_file,
            self.softmax_file,
            with_softmax=with_softmax,
        )

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "ModelSettings":
        """Return the settings to embed queries for a file with these attributes.

        A carried state depends on all sentences before, so queries start from the warm state then.
        AllenNLP's files carry the state and do not name their model.
        """
        state: InitialState = "zero" if attributes.get("state") == "zero" else "warm"
        return cls(model=attributes.get("model"), state=state)


@dataclass(frozen=True)
class TextSettings:
    """Settings of an input: its format, tokenizer and shard."""

    input_format: str | None = None
    """Name of an input format. None goes by the content and the suffix of the file."""
    tokenizer: str = "whitespace"
    """`whitespace`, `moses` or `spacy`; the last two may name a language, as in `spacy:de`."""
    language: str | None = None
    """Code of the language of the text. None is the language of the model."""
    split_sentences: bool = False
    skip_errors: bool = False
    """Give a record that cannot be read an empty dataset, in place of an error."""
    shard: str | None = None
    """`3/16` reads every 16th record from the third."""
    text_column: str | None = None
    """Column with the text or the tokens, of a format with columns. None is the usual name."""
    id_column: str | None = None
    """Column with the id of each record. None is the usual name, if there is such a column."""
    paragraphs: bool = False
    """Join the lines of a text until a blank line, before sentences are split."""
    keep_columns: tuple[str, ...] = ()
    """Columns of the input that go into `Record.columns`, or `ALL_COLUMNS`."""

    def make_tokenizer(self, model_language: str | None = None) -> Tokenizer:
        """Make the tokenizer; `model_language` counts where neither setting names a language."""
        return make_tokenizer(
            self.tokenizer, self.language or model_language, split_sentences=self.split_sentences
        )

    def find_format(self, source: object, tokenizer: Tokenizer) -> InputFormat:
        """Return the input format of a source, whose records are sentences if lines are split."""
        input_format = find_format(source, self.input_format, tokenizer)
        return (
            input_format if tokenizer.splits_by is None else replace(input_format, unit="sentence")
        )

    def read_options(
        self,
        token_limit: TokenLimit | None = None,
        *,
        ids_name_datasets: bool = False,
        ignores_ids: bool = False,
        compares_ids: bool = True,
        is_quiet: bool = False,
    ) -> ReadOptions:
        """Return the options for reading records; see `ReadOptions`."""
        return ReadOptions(
            text_column=self.text_column,
            id_column=self.id_column,
            keep_columns=None if self.keep_columns == ALL_COLUMNS else self.keep_columns,
            paragraphs=self.paragraphs,
            token_limit=token_limit,
            ids_name_datasets=ids_name_datasets,
            ignores_ids=ignores_ids,
            compares_ids=compares_ids,
            is_quiet=is_quiet,
        )

    def open_records(
        self,
        source: IO[str] | str | Path,
        tokenizer: Tokenizer,
        options: ReadOptions | None = None,
        on_bytes: Callable[[int], object] = lambda count: None,
    ) -> AbstractContextManager[Records]:
        """Open the records of a text; see `open_records`.

        Args:
            source: Path of the text, `-` for standard input, or an open text file.
            tokenizer: Tokenizer from `make_tokenizer`.
            options: Options from `read_options`.
            on_bytes: Called with the number of bytes of each line.
        """
        return open_records(
            *(source, self.find_format(source, tokenizer), on_bytes),
            tokenizer=tokenizer,
            skip_errors=self.skip_errors,
            options=options or self.read_options(),
        )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None is the whole input."""
        return None if self.shard is None else parse_shard(self.shard)


@dataclass(frozen=True)
class Selection:
    """Selection of layers, their mix, and their pooling over tokens."""

    layers: str = "all"
    """One of `NAMED_LAYERS`, `lstm1`, `lstm2`, ..., or numbers such as `0,2`."""
    mix: tuple[float, ...] | None = None
    """In place of `layers`: s of gamma * sum_k softmax(s)_k * layer_k, one number per layer."""
    gamma: float | None = None
    """Scale of the mix; None is 1."""
    pooling: str | None = None
    """One vector per sentence. None keeps one per token."""
    normalize: bool = False
    """Scale every vector to length 1. Zeros stay zeros."""

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise InputError(f"pooling {self.pooling!r}: expected {', '.join(POOLINGS)}")
        if self.mix is None:
            if self.gamma is not None:
                raise InputError(f"gamma {self.gamma}: expected a mix with it")
            return
        if self.layers != "all":
            raise InputError(
                f"layers {self.layers!r}: expected none with a mix, which is of all layers"
            )
        for name, values in (("mix", self.mix), ("gamma", [self.gamma or 0.0])):
            for value in values:
                if math.isnan(value) or abs(value) > _MAX_FLOAT32:
                    raise InputError(f"{name}: expected finite float32 numbers, found {value}")

    def for_model(self, n_layers: int) -> "Selection":
        """Return the selection in its canonical form, checked for a model.

        Args:
            n_layers: Number of layers of the model, the token layer included.

        Raises:
            InputError: The model lacks one of the layers, or its number of layers differs from
                the length of the mix.
        """
        if self.mix is None:
            return replace(self, layers=_check_layers(self.layers, n_layers))
        if len(self.mix) != n_layers:
            raise InputError(
                f"mix: expected {n_layers} numbers, one per layer from the token layer up, "
                f"found {len(self.mix)}"
            )
        gamma = 1.0 if self.gamma is None else float(self.gamma)
        return replace(self, mix=tuple(map(float, self.mix)), gamma=gamma)

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name a checked selection."""
        attributes = {"layers": self.layers}
        if self.mix is not None:
            mix = ",".join(map(str, self.mix))
            attributes = {"layers": "mix", "mix": mix, "gamma": str(self.gamma)}
        if self.pooling is not None:
            attributes["pooling"] = self.pooling
        if self.normalize:
            attributes["normalize"] = "True"
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "Selection":
        """Return the selection that a file with these attributes was made with.

        Files of AllenNLP do not say, and are taken to have all layers.
        """
        layers, mix, gamma = attributes.get("layers", "all"), attributes.get("mix"), None
        if mix is not None:
            layers, gamma = "all", float(attributes["gamma"])
            mix = tuple(float(part) for part in mix.split(","))
        return cls(
            layers, mix, gamma, attributes.get("pooling"), normalize="normalize" in attributes
        )


def parse_layers(layers: object, available: Sequence[int]) -> list[int] | None:
    """Return the numbers in a choice such as `0,2`, or None if it is not of available layers."""
    numbers = {str(number): number for number in available}
    parts = [part.strip() for part in str(layers).split(",")]  # Python users may give an int.
    return [numbers[part] for part in parts] if set(parts) <= set(numbers) else None


def _check_layers(layers: object, n_layers: int) -> str:
    """Return a choice of layers without white space; raise an `InputError` for any other text."""
    name = str(layers).strip()
    names = [*NAMED_LAYERS, *(f"lstm{number}" for number in range(1, n_layers))]
    if name in names:
        return name
    numbers = parse_layers(layers, range(n_layers))
    if numbers is None:
        raise InputError(
            f"layers {shown(layers)!r}: expected {', '.join(names)}, or numbers "
            f"from 0 to {n_layers - 1}, separated by commas"
        )
    return ",".join(map(str, numbers))


def mix_of(numbers: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the numbers of a mix as a `Selection` keeps them."""
    return None if numbers is None else tuple(numbers)


def settings_from(settings: type[_Settings], options: Mapping[str, Any]) -> _Settings:
    """Build settings from those options that have the name of a field; others are not read."""
    names = [field.name for field in fields(cast(Any, settings))]
    return settings(**{name: options[name] for name in names if name in options})


@dataclass(frozen=True)
class FilePlan:
    """Plan of a run over a file: what it reads, computes and writes. Nothing is opened."""

    source: IO[str] | str | Path
    output: str | Path
    input_format: InputFormat
    tokenizer: Tokenizer
    shard: Shard | None
    skip_errors: bool
    options: ReadOptions
    """Options for reading the records. The model adds the length of its tokens."""
    selection: Selection
    """As given; not checked for a model."""
    output_format: OutputSettings
    """With the name of a format."""
    overwrite: bool


def plan_file(
    source: IO[str] | str | Path,
    output: str | Path,
    text: TextSettings,
    selection: Selection,
    written: OutputSettings,
    *,
    state: InitialState | None = None,
    model_language: str | None = None,
) -> FilePlan:
    """Choose the formats of a run over a file, before a model is loaded.

    Args:
        source: Path of the input, `-` for standard input, or an open text file.
        output: Path of the output, or `-` for standard output.
        text: How the input is read.
        selection: Which layers are written.
        written: How the output is written.
        state: Initial state of the sentences, as far as it is known.
        model_language: Language of the tokenizer where `text` names none.

    Raises:
        InputError: The settings contradict each other or the files.
        OutputError: The output cannot be written, or is the input.
    """
    check_source(source)
    tokenizer = text.make_tokenizer(model_language)
    input_format = text.find_format(source, tokenizer)
    if text.shard is not None and state == "carry":
        raise InputError(
            "--shard requires --state zero or warm: carried states need all lines in their "
            "order; leave out --shard"
        )
    if written.use_sentence_keys and input_format.name != TEXT.name:
        raise InputError(
            f"--use-sentence-keys has no effect with {input_format.name}, which has ids"
        )
    forget_sentences = written.forget_sentences or input_format.name == FASTA.name
    output_format = replace(written, forget_sentences=forget_sentences).for_path(
        output, pooled=selection.pooling is not None
    )
    if text.keep_columns:
        output_format = _keep_columns(source, input_format, output_format)
    if str(output) != STANDARD_OUTPUT:
        path = source if isinstance(source, (str, Path)) else None
        check_output(output, overwrite=True, source=path)
    return FilePlan(
        source,
        output,
        input_format,
        tokenizer,
        text.parse_shard(),
        text.skip_errors,
        replace(
            text.read_options(ids_name_datasets=output_format.names_datasets),
            has_integer_ids=_has_integer_ids(source, input_format, output_format, text),
        ),
        selection,
        output_format,
        written.overwrite,
    )


def _keep_columns(
    source: object, input_format: InputFormat, output: OutputSettings
) -> OutputSettings:
    """Return an output format with the types of the columns of the input.

    Raises:
        InputError: The output has no rows, or the input is no readable Parquet.
    """
    if output.name not in FORMATS_WITH_ROWS:
        format_name = "HDF5" if output.name == "hdf5" else output.name
        raise InputError(f"--keep-columns requires Parquet or JSON lines, found {format_name}")
    is_typed = input_format.name == PARQUET.name and output.name == PARQUET.name
    return replace(output, column_types=column_types(str(source))) if is_typed else output


def _has_integer_ids(
    source: object, input_format: InputFormat, output: OutputSettings, text: TextSettings
) -> bool:
    """Return whether rows of the output have integers as ids, as CSV has no types of its own.

    Streams are not read twice, so their ids are texts.
    """
    is_file = isinstance(source, (str, Path)) and Path(source).is_file()
    if not is_file or output.name not in FORMATS_WITH_ROWS or input_format.name not in _DELIMITERS:
        return False
    with open_lines(str(source), skip_errors=True, splits_at_cr=True, keep_ends=True) as (lines, _):
        fields = text.read_options().fields
        return has_integer_ids(lines, _DELIMITERS[input_format.name], fields)
