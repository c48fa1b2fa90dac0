"""SHA-256 of files, and of all that a model computes with."""

import hashlib
from pathlib import Path

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.roles import MANY_LANGS_FILES


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def check_sha256(path: Path, expected: str | None) -> None:
    """Raise a `ModelError` if a file has another SHA-256 than expected, if any."""
    if expected is None:
        return
    found = sha256(path)
    if found != expected:
        name = path.name.removeprefix(".partial.")
        raise ModelError(
            f"{name}: wrong content: the SHA-256 must be {expected}, not {found}",
            remedy="Give the file of this model, or download it again.",
        )


def content_sha256(files: ModelFiles) -> str:
    """Return the SHA-256, in hexadecimal, of all tensors and words of a model.

    The architecture is excluded. Outputs record it separately.
    """
    architecture = files.architecture
    paths = [files.weights]
    if isinstance(architecture, ManyLangsArchitecture):
        others = [files.weights.with_name(name) for name in MANY_LANGS_FILES]
        paths += [path for path in others if path.exists()]
    elif architecture.char_cnn is None and files.vocabulary is not None:
        paths.append(files.vocabulary)
    digests = [sha256(path) for path in paths]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
