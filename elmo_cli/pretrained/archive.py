"""Zip files of models, unpacked into the cache folder."""

import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.errors.wording import first_line, size_text
from elmo_cli.files import disk
from elmo_cli.pretrained.cache import get_once, hashed_folder, move_model
from elmo_cli.pretrained.checksums import check_sha256
from elmo_cli.pretrained.limits import size_limit
from elmo_cli.pretrained.registry import PublishedModel
from elmo_cli.pretrained.roles import find_candidates

_PIECE_BYTES: Final = 1 << 18
_UNPACKED: Final = (
    ".dic",
    ".gz",
    ".hdf5",
    ".json",
    ".md",
    ".pkl",
    ".safetensors",
    ".txt",
)
"""Suffixes of files that are unpacked. Zip files of the NLPL repository have other,
large files."""
_MAX_MEMBERS: Final = 100
"""Maximum number of files that are unpacked. A model has up to six."""


def unpack_once(archive: Path) -> Path:
    """Return the folder with the content of a zip file. Unpack each file once."""
    folder = hashed_folder("archives", identity=_identity(archive))
    get_once(
        folder,
        find=lambda: find_candidates(folder, "weights"),
        get=lambda: unpack(archive, folder),
    )
    return folder


def _identity(archive: Path) -> str:
    """Return the path of a zip file, and the checksums in its directory.

    Another file may have the same size and time.
    """
    with _reporting_damage(archive), zipfile.ZipFile(archive) as file:
        members = [
            (member.filename, member.file_size, member.CRC)
            for member in file.infolist()
        ]
    return f"{archive.resolve()} {members}"


def unpack(archive: Path, folder: Path, model: PublishedModel | None = None) -> None:
    """Unpack the files of a model into a folder that is locked, and sync them.

    If one file fails, none appears. Folders in the archive are ignored, so that no file
    is written outside of `folder`. Links become files. A published model limits the
    size.
    """
    with _reporting_damage(archive), disk.temporary_folder(folder) as temporary:
        _unpack_members(archive, folder=temporary, model=model)
        move_model(source=temporary, folder=folder)


@contextmanager
def _reporting_damage(archive: Path) -> Iterator[None]:
    """Turn errors of a zip file, and of the disk, into a `ModelError`."""
    try:
        yield
    except FileExistsError as error:
        name = Path(error.filename).name
        problem = f"expected one {name}, found several"
        remedy = "Unpack it, and give the folder of one model."
        raise ModelError(f"{archive}: {problem}", remedy=remedy) from None
    # NotImplementedError means a rare compression, RuntimeError an encrypted file.
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        problem = f"cannot unpack the zip file: {first_line(error).removesuffix('.')}"
        remedy = (
            "Copy or download it again, or unpack it yourself, and give the folder."
        )
        raise ModelError(f"{archive}: {problem}", remedy=remedy) from None


def _unpack_members(archive: Path, folder: Path, model: PublishedModel | None) -> None:
    """Unpack the files of a model into an empty folder, and check that they are one."""
    with zipfile.ZipFile(archive) as file:
        members = []
        for member in file.infolist():
            name = PurePosixPath(member.filename).name
            if name.endswith(_UNPACKED) and not name.startswith("."):
                members.append((name, member))
        if len(members) > _MAX_MEMBERS:
            problem = f"expected the files of one model, found {len(members):,} files"
            remedy = "Unpack it, and give the folder of one model."
            raise ModelError(f"{archive}: {problem}", remedy=remedy)
        # A member never has more bytes than it says.
        n_bytes = sum(member.file_size for _, member in members)
        _check_size(archive, n_bytes=n_bytes, limit=size_limit("archive", model))
        for name, member in members:
            with file.open(member) as source, disk.create(folder / name) as target:
                shutil.copyfileobj(source, target, _PIECE_BYTES)
                disk.sync_file(target)
        weights = find_candidates(folder, "weights")
        if not weights or not find_candidates(folder, "options"):
            names = ", ".join(file.namelist()[:5]) or "no files"
            problem = f"expected options.json and a .hdf5 file, found {names}"
            remedy = (
                "Give the zip file or folder of an ELMo model, or a name of "
                "`elmo models`."
            )
            raise ModelError(f"{archive}: {problem}", remedy=remedy)
    if model is not None:
        check_sha256(weights[0], model.known_sha256(weights[0].name))


def _check_size(archive: Path, n_bytes: int, limit: int) -> None:
    if n_bytes > limit:
        expected = f"at most {size_text(limit)} when it is unpacked"
        raise ModelError(
            f"{archive}: expected {expected}, found {size_text(n_bytes)}",
            remedy="If you trust it, unpack it, and give the folder.",
        )
