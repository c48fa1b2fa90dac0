"""The files of one model on this disk."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from elmo_cli.model.architecture import Architecture
from elmo_cli.model.many_langs_config import named_config
from elmo_cli.pretrained.roles import MANY_LANGS_FILES
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
    archive: Path | None = None
    """Zip file that the files were unpacked from."""

    @property
    def paths(self) -> list[Path]:
        """All files that are read, and a zip file that contains them."""
        given = [
            self.options,
            self.weights,
            self.vocabulary,
            self.softmax,
            self.archive,
        ]
        paths = [path for path in given if path is not None]
        if self.weights.suffix == ".pkl":
            others = [self.weights.with_name(name) for name in MANY_LANGS_FILES]
            paths += [path for path in others if path.exists()]
            architecture = named_config(self.options)
            if architecture is not None:
                paths.append(architecture)
        return paths

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
