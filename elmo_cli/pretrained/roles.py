"""Roles of the files in a model's folder, found by their names.

A file with the usual name is preferred to the only file whose name fits. Folders of
AllenNLP, bilm-tf, NLPL and ELMoForManyLangs can be used unchanged.
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

FILE_NAMES: Final = {
    "options": "options.json",
    "weights": "weights.hdf5",
    "softmax": "softmax.hdf5",
    "vocabulary": "vocab.txt",
}
"""Name of the file with each role in the cache folder."""

TOKEN_ENCODER: Final = "token_embedder.pkl"
MANY_LANGS_FILES: Final = (TOKEN_ENCODER, "char.dic", "word.dic")
"""Files next to the weights of a model of ELMoForManyLangs."""

_PATTERNS: Final = {
    "options": ("options.json", "*options*.json", "config.json"),
    "weights": ("encoder.pkl", "model.hdf5", "weights.hdf5", "*.hdf5", "*.safetensors"),
    "softmax": (
        "softmax.hdf5",
        "softmax.safetensors",
        "*softmax*.hdf5",
        "*softmax*.safetensors",
    ),
    "vocabulary": ("vocab.txt", "vocab.txt.gz", "*vocab*.txt", "*vocab*.txt.gz"),
}
"""Patterns of names. The first that fits counts. HDF5 comes before safetensors, which
is an extra."""


def find_candidates(folder: Path, role: str) -> list[Path]:
    """Return the files that fit the first pattern of a role that any file fits."""
    if not os.path.isdir(folder):
        return []
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    if role == "weights":
        names = [name for name in names if "softmax" not in name]
    for pattern in _PATTERNS[role]:
        fitting = [folder / name for name in names if fnmatchcase(name, pattern)]
        if fitting:
            return fitting
    return []


def only_file(folder: Path, role: str) -> Path | None:
    """Return a folder's only file in a role; None without one, or with several."""
    paths = find_candidates(folder, role)
    return paths[0] if len(paths) == 1 else None


def role_of(name: str) -> str | None:
    """Return the role that a file of this name has in a model's folder, or None."""
    for role in ("softmax", "options", "weights", "vocabulary"):
        if any(fnmatchcase(name, pattern) for pattern in _PATTERNS[role]):
            return role
    return None
