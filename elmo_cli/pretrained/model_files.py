"""The files of one model on this disk."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from elmo_cli.model.architecture import Architecture
from elmo_cli.pretrained.trained_with import TrainedWith, read_architecture_and_training


@dataclass(frozen=True)
class ModelFiles:
    """Files of a model on this disk."""

    name: str
    """Name as the user gave it. Output files record it."""
    options: Path
    weights: Path
    vocabulary: Path | None = None
    """Words of a word-level model or of the softmax."""
    softmax: Path | None = None
    language: str | None = None
    """Language code (ISO 639) of a published model."""

    @property
    def paths(self) -> list[Path | None]:
        """Files that are read; None for a missing one."""
        return [self.options, self.weights, self.vocabulary, self.softmax]

    @property
    def architecture(self) -> Architecture:
        """Architecture of the model. The options file is read on first use."""
        return self._architecture_and_training[0]

    @property
    def initial_state(self) -> Literal["zero", "warm"]:
        """Default initial state of the model's sentences."""
        return self._architecture_and_training[1].initial_state

    @property
    def tokenizer(self) -> str | None:
        """Tokenizer of the model's training text, or None if it is unknown."""
        return self._architecture_and_training[1].tokenizer

    @cached_property
    def _architecture_and_training(self) -> tuple[Architecture, TrainedWith]:
        return read_architecture_and_training(self.options)
