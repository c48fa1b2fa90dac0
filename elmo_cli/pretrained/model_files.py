"""A folder to the files of the model in it, by their names.

Usual names come first; else the only file that may be it is taken, so that AllenNLP's,
bilm-tf's, NLPL's and ELMoForManyLangs' folders are found as they are.
"""

import hashlib
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from elmo_cli.errors import ModelError
from elmo_cli.model.options import ManyLangsOptions, read_options

FILE_NAMES: Final = {
    "options": "options.json",
    "weights": "weights.hdf5",
    "softmax": "softmax.hdf5",
    "vocabulary": "vocab.txt",
}
"""The role of a file, and its name in the cache folder."""

TOKEN_ENCODER: Final = "token_embedder.pkl"
"""Beside encoder.pkl in a model of ELMoForManyLangs."""

_PATTERNS = {
    "options": ("options.json", "*options*.json", "config.json"),
    "weights": ("encoder.pkl", "model.hdf5", "weights.hdf5", "*.hdf5", "*.safetensors"),
    "softmax": ("softmax.hdf5", "softmax.safetensors", "*softmax*.hdf5", "*softmax*.safetensors"),
    "vocabulary": ("vocab.txt", "vocab.txt.gz", "*vocab*.txt", "*vocab*.txt.gz"),
}
"""The first that fits counts; HDF5 comes before safetensors, which need another package."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, on this disk."""

    name: str
    """As the user gave it; output files record it."""
    options: Path
    weights: Path
    vocabulary: Path | None = None
    """The words of a word-level model or of the softmax, where there is such a file."""
    softmax: Path | None = None
    language: str | None = None
    """The code of its language (ISO 639), of a published model."""


def candidates(folder: Path, role: str) -> list[Path]:
    """The files of a folder that may have a role: the one with its usual name, else all."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    shown = [name for name in names if not name.startswith(".")]
    if role == "weights":
        shown = [name for name in shown if "softmax" not in name]
    for pattern in _PATTERNS[role]:
        if found := [folder / name for name in shown if fnmatchcase(name, pattern)]:
            return found
    return []


def role_of(name: str) -> str | None:
    """Return the role that a file of this name has in a model's folder, or None."""
    for role in ("softmax", "options", "weights", "vocabulary"):
        if any(fnmatchcase(name, pattern) for pattern in _PATTERNS[role]):
            return role
    return None


def only_file(folder: Path, role: str) -> Path | None:
    """The file of a folder that has a role, if exactly one may have it."""
    found = candidates(folder, role)
    return found[0] if len(found) == 1 else None


def read_folder(folder: Path, name: str) -> ModelFiles:
    """The files of the model in a folder, under the name that the user gave it."""
    errors = []
    found = {role: candidates(folder, role) for role in ("options", "weights")}
    for role, paths in found.items():
        names = ", ".join(path.name for path in paths)
        if not paths:
            errors.append(f"no {FILE_NAMES[role]}")
        elif len(paths) > 1:
            errors.append(f"several files that may be {FILE_NAMES[role]}: {names}")
    if errors:
        raise ModelError(
            f"{folder}: expected a model (options.json and weights.hdf5), "
            f"found {' and '.join(errors)}"
        )
    vocabulary, softmax = only_file(folder, "vocabulary"), only_file(folder, "softmax")
    return ModelFiles(name, found["options"][0], found["weights"][0], vocabulary, softmax)


def content_sha256(files: ModelFiles) -> str:
    """The SHA-256, in hexadecimal, of all tensors and words that a model computes with.

    That of the weights file where it alone holds them, as in character models; else one
    over the hashes of the weights, the vocabulary, and the other files of ELMoForManyLangs.
    The options are not part of it: outputs record them beside it.
    """
    options, paths = read_options(files.options), [files.weights]
    if isinstance(options, ManyLangsOptions):
        others = (TOKEN_ENCODER, "char.dic", "word.dic")
        paths += filter(Path.exists, map(files.weights.with_name, others))
    elif options.char_cnn is None and files.vocabulary:
        paths.append(files.vocabulary)
    digests = list(map(sha256, paths))
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
