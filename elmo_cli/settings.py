"""Settings of a run: which model, which text, which layers, which output.

Each dataclass is the one place where its options are declared, with their choices, defaults and
checks. Importing this module loads neither torch nor numpy, so that `elmo embed --help` is fast.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from elmo_cli.errors.checks import check_at_least, check_choice, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import shown
from elmo_cli.files.outputs import check_output
from elmo_cli.outputs.output_formats import (
    FORMATS_WITH_ROWS,
    STANDARD_OUTPUT,
    OutputSettings,
)
from elmo_cli.text.input_formats import FASTA, PARQUET, TEXT, TextInput
from elmo_cli.text.records import ALL_COLUMNS as ALL_COLUMNS
from elmo_cli.text.records import Shard
from elmo_cli.text.records import TextSettings as TextSettings
from elmo_cli.text.tables import column_types

if TYPE_CHECKING:
    from elmo_cli.pretrained.files import ModelFiles
    from elmo_cli.pretrained.find import ResolvedModel

InitialState = Literal["zero", "warm", "carry"]
"""Initial LSTM state of a sentence: zero, the state after a fixed text, or carried over."""
INITIAL_STATES: Final = get_args(InitialState)
Precision = Literal["float32", "tf32", "bfloat16", "float16", "int8"]
PRECISIONS: Final = get_args(Precision)
Direction = Literal["forward", "backward", "both"]
"""Context of a prediction: the tokens before it, the tokens after it, or each in turn."""
DIRECTIONS: Final = get_args(Direction)
POOLINGS: Final = ("mean", "max", "first", "last")
Layers = str | int | Sequence[int]
"""Choice of layers: a name or numbers, such as `top`, `0,2`, 2, -1 or [0, 2]."""
NAMED_LAYERS: Final = ("all", "top", "average", "sum", "word_emb")
"""Choices of layers that every model has; numbers and lstm1, lstm2, ... are others."""
# sentences per batch; it changes results of carried state only
DEFAULT_BATCH_SIZE: Final = 64
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
            options_file=self.options_file,
            weight_file=self.weight_file,
            vocabulary_file=self.vocabulary_file,
            softmax_file=self.softmax_file,
        )

    def find_files(self, *, with_softmax: bool = False) -> "ModelFiles":
        """Find the model's files, and download them if they are missing; see `choose_model`."""
        from elmo_cli.pretrained.find import choose_model

        return choose_model(
            self.resolved.files or self.model,
            options_file=self.options_file,
            weight_file=self.weight_file,
            vocabulary_file=self.vocabulary_file,
            softmax_file=self.softmax_file,
            with_softmax=with_softmax,
        )

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "ModelSettings":
        """Return the settings to embed queries for a file with these attributes.

        A carried state depends on all sentences before, so queries start from the warm state then,
        also for AllenNLP's files, which do not name their model.
        """
        state: InitialState = "zero" if attributes.get("state") == "zero" else "warm"
        return cls(model=attributes.get("model"), state=state)


@dataclass(frozen=True)
class Selection:
    """Selection of layers, their mix, and their pooling over tokens."""

    # one of `NAMED_LAYERS`, `lstm1`, `lstm2`, ..., or numbers such as `0,2`
    layers: str = "all"
    mix: tuple[float, ...] | None = None
    """In place of `layers`: s of gamma * sum_k softmax(s)_k * layer_k, one number per layer."""
    gamma: float | None = None  # scale of the mix; None is 1
    pooling: str | None = None  # One vector per sentence. None keeps one per token.
    normalize: bool = False  # Scale every vector to length 1. Zeros stay zeros.

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise SettingsError(
                f"--pooling {self.pooling!r}: unknown. Use {', '.join(POOLINGS)}."
            )
        if self.mix is None and self.gamma is not None:
            raise SettingsError("--gamma requires --mix")
        if self.mix is not None and self.layers != "all":
            raise SettingsError(
                "--layers has no effect with --mix, which is of all layers."
            )
        for name, values in (("mix", self.mix or ()), ("gamma", [self.gamma or 0.0])):
            for value in values:
                if math.isnan(value) or abs(value) > _MAX_FLOAT32:
                    raise SettingsError(
                        f"{name}: expected finite float32 numbers, found {value}"
                    )

    def for_model(self, n_layers: int) -> "Selection":
        """Return the selection in its canonical form, checked for a model.

        `n_layers` is the number of layers of the model, the token layer included.
        """
        if self.mix is None:
            return replace(self, layers=_check_layers(self.layers, n_layers))
        if len(self.mix) != n_layers:
            raise SettingsError(
                f"--mix: expected {n_layers} numbers, one per layer from the token layer up, "
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
        """Return the selection of a file with these attributes; AllenNLP's have all layers."""
        pooling, normalize = attributes.get("pooling"), "normalize" in attributes
        if (mix := attributes.get("mix")) is None:
            return cls(
                attributes.get("layers", "all"), pooling=pooling, normalize=normalize
            )
        numbers = tuple(map(float, mix.split(",")))
        return cls("all", numbers, float(attributes["gamma"]), pooling, normalize)


def parse_layers(layers: Layers, available: Sequence[int]) -> list[int] | None:
    """Return the numbers in a choice such as `0,2`, or None if it is not of available layers.

    Negative numbers count from the last available layer, which is -1.
    """
    numbers = {str(number): number for number in available}
    numbers |= {
        str(place - len(available)): layer for place, layer in enumerate(available)
    }
    parts = [part.strip() for part in layers_text(layers).split(",")]
    return [numbers[part] for part in parts] if set(parts) <= set(numbers) else None


def layers_text(layers: Layers) -> str:
    """Return a choice of layers as text: `0,2` for [0, 2]."""
    check_type("layers", layers, (str, int, Iterable), "a name or numbers")
    listed = [layers] if isinstance(layers, (str, int)) else layers
    return ",".join(str(layer).strip() for layer in listed)


def _check_layers(name: str, n_layers: int) -> str:
    """Return a choice of layers with numbers from 0; raise an `InputError` for any other text."""
    names = [*NAMED_LAYERS, *(f"lstm{number}" for number in range(1, n_layers))]
    if name in names:
        return name
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        raise SettingsError(
            f"--layers {shown(name)!r}: expected {', '.join(names)}, or numbers "
            f"from 0 to {n_layers - 1}, separated by commas"
        )
    return ",".join(map(str, numbers))


def settings_from(settings: type[_Settings], options: Mapping[str, Any]) -> _Settings:
    """Build settings from those options that have the name of a field; others are not read."""
    names = [field.name for field in fields(cast(Any, settings))]
    return settings(**{name: options[name] for name in names if name in options})


@dataclass(frozen=True)
class Resources:
    """Resources of the workers of a distributed run, and how many of them a part may end."""

    # Address of a cluster. None starts one on this machine for the run.
    address: str | None = None
    workers: int | None = None
    """Maximum number of workers. None is as many as the cluster has resources for."""
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0
    attempts: int = 5


@dataclass(frozen=True)
class FilePlan:
    """Plan of a run over a file: what it reads, computes and writes."""

    text: TextInput
    output: str | Path
    shard: Shard | None
    selection: Selection  # selection that is not checked for a model yet
    output_format: OutputSettings  # settings with the name of a format
    overwrite: bool

    @property
    def unit(self) -> str:
        """Word for a record in messages."""
        return self.text.format.unit


def plan_file(
    text: TextInput,
    output: str | Path,
    selection: Selection,
    written: OutputSettings,
    *,
    state: InitialState | None = None,
) -> FilePlan:
    """Plan a run over a file, before a model is loaded; `state` is None if it is not known."""
    check_type("output_file_path", output, (str, Path), "a path")
    if text.settings.shard is not None and state == "carry":
        problem = "carried states need all lines in their order. Remove --shard."
        raise SettingsError(f"--shard requires --state zero or warm: {problem}")
    input_name = text.format.name
    if written.use_sentence_keys and input_name != TEXT.name:
        raise SettingsError(
            f"--use-sentence-keys has no effect with {input_name}, which has ids"
        )
    forget_sentences = written.forget_sentences or input_name == FASTA.name
    output_format = replace(written, forget_sentences=forget_sentences).for_path(
        output, pooled=selection.pooling is not None
    )
    text.settings.check_whole_records()
    if text.settings.keep_columns:
        if output_format.name not in FORMATS_WITH_ROWS:
            name = "HDF5" if output_format.name == "hdf5" else output_format.name
            raise SettingsError(
                f"--keep-columns requires Parquet or JSON lines, found {name}"
            )
        if input_name == output_format.name == PARQUET.name:
            output_format = replace(
                output_format, column_types=column_types(text.source)
            )
    if str(output) != STANDARD_OUTPUT:
        check_output(output, text.source.path, overwrite=True)
    shard = text.settings.parse_shard()
    return FilePlan(text, output, shard, selection, output_format, written.overwrite)
