"""A model's zip file, as the NLPL repository has them, to a folder.

An archive is not trusted: names that lead out of the folder and links are refused,
files of other kinds are left out, and so are sizes that no model has.
"""

import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.integrity import ARCHIVE_ERRORS
from elmo_cli.pretrained.model_files import MANY_LANGS_FILES

_WEIGHTS = (".hdf5", ".safetensors")
_KINDS = {".dic", ".json", ".md", ".txt", *_WEIGHTS}
_MANY_LANGS = set(MANY_LANGS_FILES.values())
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_LARGEST_BYTES = 32 * 2**30
# Weights hardly compress; text shrinks to a fifth. Small files may be odd.
_LARGEST_RATIO = 100
_RATIO_MATTERS_FROM = 2**30


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of a model into a folder, all or none, without their subfolders.

    Args:
        archive: the zip file.
        folder: made if need be. Only one process at a time may unpack into it.

    Raises:
        ModelError: the archive is damaged, not safe or has no weights, or the folder
            cannot be written.
    """
    temporary = folder / ".unpacked"
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # what a process that was killed left
        temporary.mkdir(parents=True)
        with zipfile.ZipFile(archive) as file:
            members = _members(archive, file)
            for name, member in members.items():
                with file.open(member) as source, open(temporary / name, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        # The weights last: a model counts as there when they are.
        for name in sorted(members, key=lambda name: name.endswith((*_WEIGHTS, ".pkl"))):
            os.replace(temporary / name, folder / name)
    except ModelError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"{folder}: cannot unpack {archive.name}: {reason}") from None
    except ARCHIVE_ERRORS as error:
        raise ModelError(f"{archive}: damaged zip file: {error}; get it again") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _members(archive: Path, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files to unpack, by their name without folders."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in file.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ModelError(f"{archive}: refused, {member.filename} leads out of the folder")
        wanted = path.suffix in _KINDS or path.name in _MANY_LANGS
        if not wanted or member.is_dir() or path.name.startswith("."):
            continue
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ModelError(f"{archive}: refused, {member.filename} is a link, not a file")
        if member.flag_bits & 1 or member.compress_type not in _COMPRESSIONS:
            raise ModelError(
                f"{archive}: {member.filename} is encrypted or packed in a rare way; unpack "
                "the archive, and name the folder"
            )
        if path.name in members:
            raise ModelError(
                f"{archive}: expected one {path.name}, found several; unpack it, and name the "
                "folder of one model"
            )
        members[path.name] = member
    if not any(name.endswith(_WEIGHTS) for name in members) and not members.keys() >= _MANY_LANGS:
        found = ", ".join(file.namelist()[:5]) or "nothing"
        raise ModelError(f"{archive}: expected options.json and a .hdf5 file, found {found}")
    n_bytes = sum(member.file_size for member in members.values())
    bomb = n_bytes > max(_RATIO_MATTERS_FROM, _LARGEST_RATIO * archive.stat().st_size)
    if bomb or n_bytes > _LARGEST_BYTES:
        raise ModelError(f"{archive}: refused, it would unpack to {n_bytes:,} bytes")
    return members
