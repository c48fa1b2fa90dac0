"""Import of files that a user downloaded as a published model.

Files of the old and of the new model are never read as one: the old ones are set aside
before the new ones come, of which the weights are the last. A kill leaves old files as
`NAME.elmo-old`, and the same command completes the import.
"""

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import MissingModelError, ModelError
from elmo_cli.errors.wording import system_reason
from elmo_cli.files import disk
from elmo_cli.files.output_names import OLD_SUFFIX, old_path
from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.cache import locked, move_model, published_folder
from elmo_cli.pretrained.file_checks import check_file
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.registry import BUNDLED, PublishedModel
from elmo_cli.pretrained.roles import FILE_NAMES, find_candidates, role_of
from elmo_cli.pretrained.unknown_names import known_model

_EXPECTED: Final = "a folder, a zip file, or files named options.json and weights.hdf5"


def import_model(name: str, sources: Sequence[str | Path]) -> Path:
    """Copy folders, zip files and files of a published model into the cache.

    The files are checked before. Return their folder.
    """
    model = known_model(name)
    if model.name == BUNDLED:
        raise ModelError(
            f"{BUNDLED}: the model is bundled with elmo-cli",
            remedy="Import is unnecessary.",
        )
    folder = published_folder(model)
    with locked(folder), disk.temporary_folder(folder) as staged:
        for source in sources:
            _stage(os.path.expanduser(source), staged, model)
        new = list(staged.iterdir())
        _complete(folder, staged, model)
        read_folder(staged, model.name)
        for path in new:
            sha256 = model.known_sha256(path.name)
            check_file(path, role=role_of(path.name), expected_sha256=sha256)
        _set_aside(folder, list(staged.iterdir()))
        move_model(source=staged, folder=folder)
        for path in folder.glob(f"*{OLD_SUFFIX}"):
            disk.remove(path)
    return folder


def _stage(path: str | Path, staged: Path, model: PublishedModel) -> None:
    """Copy a source's files into a temporary folder, with their names in the cache."""
    source = Path(path)
    try:
        if source.is_dir():
            paths = _paths_in(source)
        elif source.suffix == ".zip" and zipfile.is_zipfile(source):
            unpack(source, folder=staged, model=model)
            return
        elif role_of(source.name) and source.is_file():
            paths = [source]
        elif source.exists():
            raise ModelError(
                f"{source}: unknown kind of file", remedy=f"Give {_EXPECTED}."
            )
        else:
            raise MissingModelError(
                f"{path}: no such file or folder", remedy=f"Give {_EXPECTED}."
            )
        for each in paths:
            target = staged / _cache_name(each)
            disk.remove(target, missing_ok=True)  # Another source may have it.
            disk.copy(each, target)
    except ModelError:
        raise
    except OSError as error:
        reason = system_reason(error)
        raise ModelError(f"{source}: cannot be copied: {reason}") from None


def _paths_in(folder: Path) -> list[Path]:
    """Return the files of the model in a folder."""
    files = read_folder(folder, str(folder))
    if files.weights.suffix != ".pkl":
        return files.paths
    # A model of ELMoForManyLangs has more files.
    suffixes = (".dic", ".json", ".pkl")
    return [path for path in folder.iterdir() if path.suffix in suffixes]


def _cache_name(source: Path) -> str:
    """Return the name that a file gets in the cache folder. It keeps its suffixes."""
    role = role_of(source.name)
    if role is None or source.suffix == ".pkl" or source.name == "config.json":
        return source.name
    suffix = ".txt.gz" if source.name.endswith(".gz") else source.suffix
    return Path(FILE_NAMES[role]).stem + suffix


def _complete(folder: Path, staged: Path, model: PublishedModel) -> None:
    """Copy options or weights that the new files lack from the cache folder."""
    for role in ("options", "weights"):
        if find_candidates(staged, role):
            continue
        old = find_candidates(folder, role)
        if not old:
            raise ModelError(
                f"{model.name}: expected {FILE_NAMES[role]} too, found none",
                remedy="Give it with another {--from}.",
            )
        for path in old:
            disk.copy(path, staged / path.name)


def _set_aside(folder: Path, new: Sequence[Path]) -> None:
    """Rename the files of the cache folder that new ones replace."""
    names = {path.name for path in new}
    roles = {role_of(name) for name in names} - {None}
    for path in list(folder.iterdir()):
        if path.name in names or role_of(path.name) in roles:
            disk.replace(path, old_path(path))
    disk.sync(folder)
