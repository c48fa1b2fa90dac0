"""Options of a model: its files, initial state, precision and device."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_at_least, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template, joined, option_named, option_of
from elmo_cli.errors.wording import expected_one_of
from elmo_cli.options.fields import check_choices, option
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection

InitialState = Literal["zero", "warm", "carry"]
"""Initial LSTM state of a sentence: zero, after a fixed text, or carried over."""
INITIAL_STATES: Final = get_args(InitialState)
Precision = Literal["float32", "tf32", "bfloat16", "float16", "int8"]
PRECISIONS: Final = get_args(Precision)
Direction = Literal["forward", "backward", "both"]
"""Context of a prediction: the tokens before it, those after it, or each in turn."""
DIRECTIONS: Final = get_args(Direction)
_DEVICE: Final = re.compile(r"auto|cpu|(mps|cuda)(:\d+)?|-?\d+")
_USABLE_DEVICE: Final = re.compile(r"auto|cpu|mps(:0)?|cuda(:\d+)?|-1|\d+")
_DEVICE_NAMES: Final = ("auto", "cpu", "cuda", "cuda:N", "mps")
_FILES: Final = ("options_file", "weight_file", "vocabulary_file", "softmax_file")
DEFAULT_BATCH_SIZE: Final = 64
"""Sentences per batch. It changes results of carried state only."""


def reading_directions(direction: Direction) -> tuple[ReadingDirection, ...]:
    """Return the directions in which a text is read: one of them, or each in turn."""
    return READING_DIRECTIONS if direction == "both" else (direction,)


def is_device(value: object) -> bool:
    """Return whether a value names a device: "cuda:0", 0 or a `torch.device`."""
    return _DEVICE.fullmatch(str(value)) is not None


def check_device(device: object, name: str = "device") -> str:
    """Return the name of a device; raise a `SettingsError` for another value.

    Args:
        device: Name or number of a device, or a `torch.device`.
        name: Name of the argument.
    """
    text = str(device)
    if _USABLE_DEVICE.fullmatch(text):
        return text
    names: tuple[str, ...] = _DEVICE_NAMES
    if name == "cuda_device":
        names = ("-1 for the CPU", "the number of a GPU")
    found = device if isinstance(device, (int, list, tuple)) else text
    raise SettingsError(
        "{option}: {problem}",
        option=option_of(name),
        problem=expected_one_of(names, found),
    )


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model: its files, initial state, precision and device."""

    model: Any = option(
        None,
        "Model listed by `elmo models`, hf:OWNER/NAME, or the path of a folder or zip "
        "file.",
        default_text="ELMO_MODEL, else the bundled model",
        value="NAME|PATH",
    )
    """May also be its `ModelFiles`."""
    options_file: str | Path | None = option(
        None,
        "options.json of a model; requires {--weight-file}.",
        value="FILE|URL",
    )
    weight_file: str | Path | None = option(
        None,
        "weights.hdf5 or weights.safetensors; requires {--options-file}.",
        value="FILE|URL",
    )
    vocabulary_file: str | Path | None = option(
        None,
        "Vocabulary of a word-level model or a softmax.",
        default_text="vocab.txt next to the weights",
        value="FILE",
    )
    softmax_file: str | Path | None = option(
        None,
        "softmax.hdf5 of the model.",
        default_text="next to the weights",
        value="FILE|URL",
    )
    state: InitialState | None = option(
        None,
        "Initial LSTM state of a sentence: zero, warm (after a fixed text) or carry "
        "(from the previous batch, as in AllenNLP).",
        default_text="zero, or warm for a model trained with {--state carry}",
        choices=INITIAL_STATES,
    )
    precision: Precision = option(
        "float32",
        "Precision of the computation. int8 needs a CPU with VNNI (see `elmo info`), "
        "tf32 an NVIDIA GPU.",
        choices=PRECISIONS,
    )
    device: str | int = option(
        "cpu",
        "Device: cpu, cuda, cuda:N or N, mps, or auto (a CUDA GPU if there is one).",
        value="DEVICE",
    )
    """The number -1 is the CPU."""
    batch_tokens: int | None = option(
        None,
        "Maximum number of tokens per batch.",
        default_text="8192, or 32768 on a CUDA GPU",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        if self.batch_tokens is not None:
            check_at_least("batch_tokens", self.batch_tokens, 1)
        for name in _FILES:
            file = getattr(self, name)
            if file is not None:
                check_type(name, file, (str, os.PathLike), "a path or a URL")
        self._check_one_model()

    def _check_one_model(self) -> None:
        """Raise a `SettingsError` unless a model is given in one way, or in none."""
        files = []
        if self.options_file is not None:
            files.append(option_named("--options-file"))
        if self.weight_file is not None:
            files.append(option_named("--weight-file"))
        if self.model is not None and files:
            remedy = "Remove one of them."
            if len(files) == 2:
                remedy = "Remove {--model}, or the two files."
            raise SettingsError(
                "{--model}: cannot be combined with {files}",
                remedy=remedy,
                files=joined(files, " and "),
            )
        if self.options_file is not None and self.weight_file is None:
            raise SettingsError(
                Template("{--options-file}: requires {--weight-file}"),
                remedy="Add it, or remove {--options-file}.",
            )
        if self.weight_file is not None and self.options_file is None:
            raise SettingsError(
                Template("{--weight-file}: requires {--options-file}"),
                remedy="Add it, or remove {--weight-file}.",
            )

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "ModelSettings":
        """Return the settings to embed queries for a file with these attributes.

        A carried state depends on all sentences before, so queries start from the warm
        state then, also for AllenNLP's files, which do not name their model.
        """
        state: InitialState = "zero" if attributes.get("state") == "zero" else "warm"
        return cls(model=attributes.get("model"), state=state)
