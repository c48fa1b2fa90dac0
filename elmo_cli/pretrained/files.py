"""Files of a model in a folder, found by their names.

A file with the usual name is preferred to the only file whose name fits. Folders of AllenNLP,
bilm-tf, NLPL and ELMoForManyLangs can be used unchanged.

SHA-256 sums of the files of a model, in a file that `sha256sum --check` can read.

They are recorded when a model is downloaded. A mirror publishes them as its list of files.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from elmo_cli.atomic import renamed
from elmo_cli.errors import MissingModelError, ModelError, system_reason
from elmo_cli.model.model_options import (
    ModelOptions,
    TrainedWith,
    read_options_and_training,
)

FILE_NAMES: Final = {
    "options": "options.json",
    "weights": "weights.hdf5",
    "softmax": "softmax.hdf5",
    "vocabulary": "vocab.txt",
}
"""Name of the file with each role in the cache folder."""

_MAX_HEADER_BYTES: Final = 100_000_000
"""Maximum size of the header of a safetensors file, as its package has it."""
TOKEN_ENCODER: Final = "token_embedder.pkl"
"""File next to encoder.pkl in a model of ELMoForManyLangs."""
MANY_LANGS_FILES: Final = (TOKEN_ENCODER, "char.dic", "word.dic")
"""Files next to the weights of a model of ELMoForManyLangs."""

_PATTERNS = {
    "options": ("options.json", "*options*.json", "config.json"),
    "weights": ("encoder.pkl", "model.hdf5", "weights.hdf5", "*.hdf5", "*.safetensors"),
    "softmax": ("softmax.hdf5", "softmax.safetensors", "*softmax*.hdf5", "*softmax*.safetensors"),
    "vocabulary": ("vocab.txt", "vocab.txt.gz", "*vocab*.txt", "*vocab*.txt.gz"),
}
"""Patterns of names. The first that fits counts. HDF5 comes before safetensors, an extra."""


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
    def parsed_options(self) -> ModelOptions:
        """Architecture of the model. The options file is read on first use.

        Raises:
            OptionsError: The file cannot be read, or does not describe a model.
        """
        return self._options_and_training[0]

    @property
    def initial_state(self) -> Literal["zero", "warm"]:
        """Default initial state of the model's sentences."""
        return self._options_and_training[1].initial_state

    @property
    def tokenizer(self) -> str | None:
        """Tokenizer of the model's training text, or None if it is unknown."""
        return self._options_and_training[1].tokenizer

    @cached_property
    def _options_and_training(self) -> tuple[ModelOptions, TrainedWith]:
        return read_options_and_training(self.options)


def candidates(folder: Path, role: str) -> list[Path]:
    """Return the files of a folder that fit the first pattern of a role that any file fits."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    visible = [name for name in names if not name.startswith(".")]
    if role == "weights":
        visible = [name for name in visible if "softmax" not in name]
    for pattern in _PATTERNS[role]:
        if paths := [folder / name for name in visible if fnmatchcase(name, pattern)]:
            return paths
    return []


def role_of(name: str) -> str | None:
    """Return the role that a file of this name has in a model's folder, or None."""
    for role in ("softmax", "options", "weights", "vocabulary"):
        if any(fnmatchcase(name, pattern) for pattern in _PATTERNS[role]):
            return role
    return None


def only_file(folder: Path, role: str) -> Path | None:
    """Return the file of a folder that has a role, or None for several candidates."""
    paths = candidates(folder, role)
    return paths[0] if len(paths) == 1 else None


def read_folder(folder: Path, name: str) -> ModelFiles:
    """Return the files of the model in a folder. `name` is the model's name as the user gave it."""
    errors = []
    by_role = {role: candidates(folder, role) for role in ("options", "weights")}
    for role, paths in by_role.items():
        names = ", ".join(path.name for path in paths)
        if not paths:
            errors.append(f"no {FILE_NAMES[role]}")
        elif len(paths) > 1:
            errors.append(f"several files that may be {FILE_NAMES[role]}: {names}")
    if errors:
        kind = ModelError if all(by_role.values()) else MissingModelError
        raise kind(
            f"{folder}: expected a model (options.json and weights.hdf5), "
            f"found {' and '.join(errors)}"
        )
    vocabulary, softmax = only_file(folder, "vocabulary"), only_file(folder, "softmax")
    others = [path for path in (vocabulary, softmax) if path is not None]
    if by_role["weights"][0].suffix == ".pkl":
        others += [folder / name for name in MANY_LANGS_FILES if os.path.exists(folder / name)]
    for path in chain.from_iterable([*by_role.values(), others]):
        if not path.is_file():  # A named pipe would never end, nor would a device.
            raise ModelError(f"{path}: expected a regular file, found another kind.")
    return ModelFiles(name, by_role["options"][0], by_role["weights"][0], vocabulary, softmax)


def has_tensor(path: Path, name: str) -> bool:
    """Return whether a file of weights has a tensor; False for a damaged file.

    Torch, which takes a second, is not imported.
    """
    with suppress(OSError, ValueError):
        if path.suffix == ".safetensors":
            with open(path, "rb") as file:
                n_bytes = min(int.from_bytes(file.read(8), "little"), _MAX_HEADER_BYTES)
                return name in json.loads(file.read(n_bytes))
        import h5py

        with h5py.File(path, "r") as file:
            return name in file
    return False


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


logger = logging.getLogger(__name__)

SUMS: Final = "SHA256SUMS"

_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([^/\\.:][^/\\:]*)")
"""Sum and name of a file in one line. The file is in the folder of the list, and not hidden."""


def read_sums(path: Path) -> dict[str, str]:
    """Return the sums in a file, by the names of the files that they belong to.

    Raises:
        ModelError: A line is no sum, or names a file in another folder.
        OSError: The file cannot be read.
    """
    sums = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        match = _LINE.fullmatch(line.decode("utf-8", errors="replace"))
        if match is None:
            raise ModelError(
                f"{path.name}, line {number}: expected a SHA-256 sum and the name of a file. Write "
                "it with `sha256sum *`."
            )
        sums[match[2]] = match[1]
    return sums


def model_files(folder: Path) -> list[Path]:
    """Return the visible files of a model's folder, without the file of sums."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in files if path.is_file() and path.name[0] != "." and path.name != SUMS]


def known_sums(folder: Path) -> dict[str, str]:
    """Return the recorded sums of a folder. A missing or damaged file has none."""
    try:
        return read_sums(folder / SUMS)
    except (OSError, ModelError):
        return {}


def record_sums(folder: Path, replaced: Collection[str] = ()) -> None:
    """Record the sums of all files. Only missing sums and sums of replaced files are computed."""
    old_sums = {name: digest for name, digest in known_sums(folder).items() if name not in replaced}
    sums = {path.name: old_sums.get(path.name) or sha256(path) for path in model_files(folder)}
    if sums == known_sums(folder):
        return
    try:
        with renamed(folder / SUMS, folder / f".partial.{SUMS}") as partial:
            lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
            partial.write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:  # The model works without its sums.
        logger.info("%s: cannot be written: %s", folder / SUMS, system_reason(error))
