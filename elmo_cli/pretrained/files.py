"""Files of a model in a folder, found by their names, and their hashes.

A file with the usual name is preferred to the only file whose name fits. Folders of AllenNLP,
bilm-tf, NLPL and ELMoForManyLangs can be used unchanged.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from elmo_cli.errors.exceptions import MissingModelError, ModelError, WeightsError
from elmo_cli.model.many_langs_options import ManyLangsOptions
from elmo_cli.model.options import ModelOptions
from elmo_cli.model.options_file import read_options
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.trained_with import TrainedWith, read_options_and_training
from elmo_cli.text.records import TextSettings
from elmo_cli.text.tokenizers import Tokenizer

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
MANY_LANGS_FILES: Final = (TOKEN_ENCODER, "char.dic", "word.dic")
"""Files next to the weights of a model of ELMoForManyLangs."""

_DUMP: Final = "`python bin/dump_weights.py --save_dir FOLDER --outfile weights.hdf5`"
_NAME: Final = "Give a name of `elmo models`, or the folder of an ELMo model."
_OTHER_KINDS: Final = {
    r"(encoder|token_embedder)\.pkl\n": "a part of an ELMoForManyLangs model. Give the "
    "folder with all its files, including config.json, as the model.",
    r"checkpoint\.pt\n": "a checkpoint of `elmo train`. Give its folder when that is done.",
    r".*\n(PK\x03\x04(?s:.{26})[^/]*/data\.pkl|\x80[\x02-\x05])": "a pickle or a file of PyTorch. "
    "Give ELMo's HDF5 weights and options, which AllenNLP names in the config.json next to it.",
    r".*\nversion https://git-lfs": "a pointer of git-lfs. Get the file with `git lfs pull`.",
    r".*\n\s*<(?i:!doctype|html)": "a web page. Download the file itself.",
    r".*\n(\d+ \d+\s|\xba\x16\x4f\x2f)": f"a file of word vectors. {_NAME}",
    r'config\.json\n(?s:.*)"(architectures|model_type)"': f"part of a transformers model. {_NAME}",
    r".*\n(\x1f\x8b|BZh|\xfd7zXZ|7z\xbc|Rar!|(?s:.{257})ustar)": "a packed file. Unpack it, and "
    "give what is in it.",
    r"(.*\.ckpt.*|checkpoint)\n": f"a checkpoint of TensorFlow. Write HDF5 from its folder with "
    f"bilm-tf: {_DUMP}.",
    r"(saved_model|tfhub_module)\.pb\n": "a module of TensorFlow. Use the model `original` for "
    "TF-Hub's elmo.",
}
"""Files of other programs, with remedies, by patterns of their names and first bytes."""

_PATTERNS = {
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
    def paths(self) -> list[Path | None]:
        """Files that are read; None for a missing one."""
        return [self.options, self.weights, self.vocabulary, self.softmax]

    @property
    def parsed_options(self) -> ModelOptions:
        """Architecture of the model. The options file is read on first use."""
        return self._options_and_training[0]

    @property
    def initial_state(self) -> Literal["zero", "warm"]:
        """Default initial state of the model's sentences."""
        return self._options_and_training[1].initial_state

    @property
    def tokenizer(self) -> str | None:
        """Tokenizer of the model's training text, or None if it is unknown."""
        return self._options_and_training[1].tokenizer

    def make_tokenizer(
        self, name: str | None = None, language: str | None = None
    ) -> Tokenizer:
        """Make a tokenizer of raw texts. None is the training's, if it is known, or else moses."""
        settings = TextSettings(tokenizer=name or self.tokenizer, language=language)
        return settings.make_tokenizer(self.language, "moses")

    @cached_property
    def _options_and_training(
        self,
    ) -> tuple[ModelOptions, TrainedWith]:
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


def check_kind(path: Path, start: str | None = None) -> None:
    """Raise a `WeightsError` for a file of another program, whose message begins with `start`."""
    # The name of a TensorFlow checkpoint is the beginning of its files' names.
    is_checkpoint = os.path.exists(f"{path}.index")
    if (os.path.isfile(path) or is_checkpoint) and role_of(path.name) != "vocabulary":
        head = ""
        with suppress(OSError), open(path, encoding="latin-1", newline="") as file:
            head = file.read(1000)
        for pattern, kind in _OTHER_KINDS.items():
            if re.match(pattern, f"{path.name}\n{head}"):
                raise WeightsError(f"{start or f'{path}:'} {kind}")


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
        found = " and ".join(errors)
        problem = (
            f"{folder}: expected a model (options.json and weights.hdf5), found {found}"
        )
        for path in sorted(folder.glob("*")):
            check_kind(path, f"{problem}. {path.name} is")
        several = f"{problem}. Give the two files instead of the folder."
        raise (
            ModelError(several) if all(by_role.values()) else MissingModelError(problem)
        )
    (options,), (weights,) = by_role.values()
    vocabulary, softmax = only_file(folder, "vocabulary"), only_file(folder, "softmax")
    paths = [options, weights, *filter(None, (vocabulary, softmax))]
    if weights.suffix == ".pkl":
        paths += [
            folder / name for name in MANY_LANGS_FILES if os.path.exists(folder / name)
        ]
    for path in paths:
        if not path.is_file():  # A named pipe would never end, nor would a device.
            raise ModelError(f"{path}: expected a regular file, found another kind.")
        if path.suffix != ".pkl":
            check_kind(path)
    return ModelFiles(name, options, weights, vocabulary, softmax)


def has_tensor(path: Path, name: str) -> bool:
    """Return whether a file of weights has a tensor; False for a damaged file."""
    # `model.weights` would import torch, which takes a second.
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


def check_sha256(path: Path, expected: str | None) -> None:
    """Raise a `ModelError` if a file has another SHA-256 than the expected one; None fits all."""
    if expected is not None and (digest := sha256(path)) != expected:
        name = path.name.removeprefix(".partial.")
        problem = f"wrong content: the SHA-256 must be {expected}, not {digest}"
        raise ModelError(f"{name}: {problem}. Download it again.")


def check_file(
    path: Path, role: str | None, expected_sha256: str | None = None
) -> None:
    """Raise an error unless a file can be read in its role, and has the expected SHA-256."""
    check_sha256(path, expected_sha256)
    if path.suffix != ".pkl":
        check_kind(path)
    if role == "options":
        read_options(path)
    elif role == "vocabulary":
        read_vocabulary(path)
    elif role is not None and path.suffix != ".pkl":
        from elmo_cli.model.tensor_files import open_tensors

        with open_tensors(path):
            pass


def content_sha256(files: ModelFiles) -> str:
    """Return the SHA-256, in hexadecimal, of all tensors and words that a model computes with.

    The options are excluded. Outputs record them separately.
    """
    options, paths = files.parsed_options, [files.weights]
    if isinstance(options, ManyLangsOptions):
        paths += filter(Path.exists, map(files.weights.with_name, MANY_LANGS_FILES))
    elif options.char_cnn is None and files.vocabulary:
        paths.append(files.vocabulary)
    digests = list(map(sha256, paths))
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
