"""Verification of the downloaded models against known checksums."""

from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import ElmoError, first_line
from elmo_cli.pretrained.checksums import known_sums, model_files
from elmo_cli.pretrained.download import check_file, published_folder
from elmo_cli.pretrained.model_files import role_of, sha256
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel


@dataclass(frozen=True)
class FileCheck:
    """Result of verifying one file of a model."""

    model: str
    path: Path
    result: str
    """One line with the comparison and its outcome."""
    is_damaged: bool


def verify_models() -> list[FileCheck]:
    """Verify all files of the models in the cache folder."""
    downloaded = [model for model in MODELS if model.name != BUNDLED]
    return [
        _verify(model, path, known_sums(path.parent).get(path.name))
        for model in downloaded
        for path in model_files(published_folder(model))
    ]


def _verify(model: PublishedModel, path: Path, recorded: str | None) -> FileCheck:
    """Compare a file with its published or recorded checksum. Without a checksum, read it."""
    role = role_of(path.name)
    published = model.weights_sha256 if role == "weights" and path.suffix == ".hdf5" else None
    problem, basis = None, "is readable, and has no known sha256"
    try:
        if expected := published or recorded:
            basis = f"has the sha256 {'published' if published else 'recorded at its download'}"
            if (digest := sha256(path)) != expected:
                problem = f"damaged: expected the sha256 {expected}, found {digest}"
        elif role is not None and path.suffix != ".pkl":
            check_file(path, role)
    except (ElmoError, OSError) as error:
        problem = f"damaged: {first_line(error).removeprefix(f'{path}: ')}"
    return FileCheck(model.name, path, problem or basis, problem is not None)
