"""Options of a model: its files, initial state, precision and device."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_at_least
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
DEFAULT_BATCH_SIZE: Final = 64
"""Sentences per batch. It changes results of carried state only."""


def reading_directions(direction: Direction) -> tuple[ReadingDirection, ...]:
    """Return the directions in which a text is read: one of them, or each in turn."""
    return READING_DIRECTIONS if direction == "both" else (direction,)


def is_device(value: object) -> bool:
    """Return whether a value names a device: "cuda:0", 0 or a `torch.device`."""
    return _DEVICE.fullmatch(str(value)) is not None


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model: its files, initial state, precision and device."""

    model: Any = option(
        None,
        "Model listed by `elmo models`, hf:OWNER/NAME, a folder or a zip file.",
        default_text="ELMO_MODEL, else the bundled model",
        value="NAME|FOLDER",
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
        "Precision of the computation. int8 requires VNNI; tf32 requires an "
        "NVIDIA GPU.",
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
        default_text="8192 on the CPU, 32768 on a GPU",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        if self.batch_tokens is not None:
            check_at_least("batch_tokens", self.batch_tokens, 1)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "ModelSettings":
        """Return the settings to embed queries for a file with these attributes.

        A carried state depends on all sentences before, so queries start from the warm
        state then, also for AllenNLP's files, which do not name their model.
        """
        state: InitialState = "zero" if attributes.get("state") == "zero" else "warm"
        return cls(model=attributes.get("model"), state=state)
