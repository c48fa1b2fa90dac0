"""Shared parts of the benchmark: the model, the text, the peer, a row's form."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options_json import parse_architecture
from elmo_cli.model.weights import write_weights

HERE = Path(__file__).parent
ALICE = HERE.parent / "examples" / "alice.txt"
ORIGINAL: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}
TINY: dict[str, Any] = {
    "lstm": {**ORIGINAL["lstm"], "projection_dim": 4, "dim": 8},
    "char_cnn": {**ORIGINAL["char_cnn"], "filters": [[1, 4], [2, 4]], "n_highway": 1},
}


@dataclass(frozen=True)
class Row:
    """Line of the table."""

    what: str
    target: str
    measured: str
    met: bool | None = None
    """None if the row was not measured, or has no target."""
    figures: dict[str, Any] = field(default_factory=dict)
    """All figures, including the figures of each turn."""


@dataclass(frozen=True)
class Setting:
    """Machine, model and text that the rows are measured with."""

    folder: Path
    """Folder for temporary files."""
    model: Path
    """Folder with options.json and weights.hdf5."""
    tiny_model: Path
    lines: Sequence[str]
    peer: Path | None = None
    """Path of the python of the environment with AllenNLP."""
    repeats: int = 5
    before: Path | None = None
    """Checkout of an earlier version, with its kernels."""

    def write(self, name: str, lines: Sequence[str]) -> Path:
        """Write a text file of these lines."""
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def ours(self, script: str, model: Path, *arguments: str | Path) -> list[str]:
        """Return a command that runs one of this folder's scripts with a model."""
        return [
            sys.executable,
            str(HERE / script),
            *_files(model),
            *(str(argument) for argument in arguments),
        ]

    def theirs(self, *arguments: str | Path) -> list[str]:
        """Return the command that runs AllenNLP on the text."""
        return [
            str(self.peer),
            str(HERE / "allennlp_elmo.py"),
            *_files(self.model),
            *(str(argument) for argument in arguments),
        ]


def _files(model: Path) -> list[str]:
    options = model / "options.json"
    weights = model / "weights.hdf5"
    return [f"--options-file={options}", f"--weight-file={weights}"]


def make_model(folder: Path, options: dict[str, Any]) -> Path:
    """Create a folder with options.json and random weights of the architecture."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    (folder / "options.json").write_text(json.dumps(options))
    write_weights(folder / "weights.hdf5", BiLm(parse_architecture(options)))
    return folder
