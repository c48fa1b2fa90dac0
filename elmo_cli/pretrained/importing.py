"""Import of the files of a published model that were downloaded by other means."""

import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from elmo_cli.errors import MissingModelError, ModelError, system_reason
from elmo_cli.model.options import ManyLangsOptions, parameters_by_part, read_options
from elmo_cli.pretrained.checksums import record_sums
from elmo_cli.pretrained.download import UNPACKED, check_file, locked, published_folder, unpack
from elmo_cli.pretrained.loading import load_bilm, no_such_model
from elmo_cli.pretrained.model_files import (
    FILE_NAMES,
    TOKEN_ENCODER,
    ModelFiles,
    candidates,
    read_folder,
    role_of,
)
from elmo_cli.pretrained.registry import BUNDLED, PublishedModel, published_model

_EXPECTED: Final = "a folder, a zip file, or files named options.json and weights.hdf5"


def import_model(name: str, sources: Sequence[str | Path]) -> Path:
    """Check the files of a published model, and copy them into the cache folder.

    Args:
        name: Name of the model in the registry.
        sources: Folders, zip files and single files of the model.

    Returns:
        The folder of the model in the cache.
    """
    model = published_model(name)
    if model is None:
        raise no_such_model(name)
    if model.name == BUNDLED:
        raise ModelError(f"{BUNDLED}: the model is bundled with elmo-cli. Import is unnecessary.")
    folder = published_folder(model)
    with locked(folder), TemporaryDirectory(dir=folder) as temporary:
        staged = Path(temporary)
        for source in sources:
            _stage(Path(os.path.expanduser(source)), staged, model)
        names = [path.name for path in staged.iterdir()]
        _complete(folder, staged, model)
        _check(model, read_folder(staged, model.name))
        _replace(folder, staged, names)
        record_sums(folder, replaced=names)
    return folder


def _stage(source: Path, staged: Path, model: PublishedModel) -> None:
    """Copy the files of a source into a temporary folder."""
    try:
        if source.is_dir():
            _stage_folder(source, staged)
        elif source.suffix == ".zip" and zipfile.is_zipfile(source):
            unpack(source, staged, model)
        elif (role := role_of(source.name)) and source.is_file():
            shutil.copyfile(source, staged / _cache_name(source, role))
        elif source.exists():
            raise ModelError(f"{source}: unknown kind of file. Give {_EXPECTED}.")
        else:
            raise MissingModelError(f"{source}: no such file or folder. Give {_EXPECTED}.")
    except OSError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{source}: cannot be copied: {system_reason(error)}.") from None


def _stage_folder(source: Path, staged: Path) -> None:
    """Copy the files of a model in a folder, under the names that the cache folder uses."""
    files = read_folder(source, str(source))
    if files.weights.suffix == ".pkl":  # A model of ELMoForManyLangs has more files.
        for path in sorted(source.iterdir()):
            if path.is_file() and path.name[0] != "." and path.name.endswith(UNPACKED):
                shutil.copyfile(path, staged / path.name)
        return
    for role in FILE_NAMES:
        if (path := getattr(files, role)) is not None:
            shutil.copyfile(path, staged / _cache_name(path, role))


def _cache_name(source: Path, role: str) -> str:
    """Return the name that a file gets in the cache folder. It keeps its suffixes."""
    if source.suffix == ".pkl" or source.name == "config.json":
        return source.name
    name = Path(FILE_NAMES[role])
    return f"{name.stem}{'.txt.gz' if source.name.endswith('.gz') else source.suffix}"


def _complete(folder: Path, staged: Path, model: PublishedModel) -> None:
    """Copy missing files of the model from the cache folder to the folder of the new files."""
    for role in ("options", "weights", "vocabulary"):
        if candidates(staged, role):
            continue
        for path in candidates(folder, role):
            shutil.copyfile(path, staged / path.name)
        if role != "vocabulary" and not candidates(staged, role):
            raise ModelError(
                f"{model.name}: expected {FILE_NAMES[role]} too, found none. Give it with another "
                "--from."
            )


def _check(model: PublishedModel, files: ModelFiles) -> None:
    """Raise an error if files do not fit each other, or belong to another model."""
    is_hdf5 = files.weights.suffix == ".hdf5"
    expected_sha256 = model.weights_sha256 if is_hdf5 else None
    options = read_options(files.options)
    if isinstance(options, ManyLangsOptions):
        if not files.weights.with_name(TOKEN_ENCODER).exists():
            raise ModelError(f"{model.name}: no {TOKEN_ENCODER}. Give the whole folder.")
    else:
        check_file(files.weights, "weights", expected_sha256)
        n_parameters = sum(parameters_by_part(options, None).values()) if options.char_cnn else None
        if n_parameters and model.parameters and n_parameters != model.parameters:
            raise ModelError(
                f"{model.name}: expected {model.parameters:,} parameters, found {n_parameters:,}. "
                "These are the files of another model."
            )
    load_bilm(files)


def _replace(folder: Path, staged: Path, names: Sequence[str]) -> None:
    """Move the new files into the cache folder, and remove older files with their roles."""
    for role in FILE_NAMES:
        if any(role_of(name) == role for name in names):
            for old in candidates(folder, role):
                old.unlink()
    # A model counts as complete when it has its weights, so they come last.
    for name in sorted(names, key=lambda name: role_of(name) == "weights"):
        (staged / name).replace(folder / name)
