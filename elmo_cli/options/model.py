"""Options of a model: its files, initial state, precision and device."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_at_least, check_choice

InitialState = Literal["zero", "warm", "carry"]
"""Initial LSTM state of a sentence: zero, the state after a fixed text, or carried over."""


INITIAL_STATES: Final = get_args(InitialState)


Precision = Literal["float32", "tf32", "bfloat16", "float16", "int8"]


PRECISIONS: Final = get_args(Precision)


Direction = Literal["forward", "backward", "both"]
"""Context of a prediction: the tokens before it, the tokens after it, or each in turn."""


DIRECTIONS: Final = get_args(Direction)


# sentences per batch; it changes results of carried state only
DEFAULT_BATCH_SIZE: Final = 64


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model: its files, initial state, precision and device."""

    model: Any = None
    """Name, folder or zip file of a model, or its `ModelFiles`. None is the default model."""
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

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "ModelSettings":
        """Return the settings to embed queries for a file with these attributes.

        A carried state depends on all sentences before, so queries start from the warm state then,
        also for AllenNLP's files, which do not name their model.
        """
        state: InitialState = "zero" if attributes.get("state") == "zero" else "warm"
        return cls(model=attributes.get("model"), state=state)
