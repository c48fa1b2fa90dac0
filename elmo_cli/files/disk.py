"""The one door to the disk: functions that write, sync, rename and remove files.

No other module changes a file or a folder, so that tests can watch each change, let it
fail, or lose it as a power failure does. `tests/files/test_disk.py` finds a change that
goes another way. Other packages write only to files that were opened here.
"""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple

OPEN_SECONDS: Final = 2.0
"""Time to wait for programs on Windows to close a file."""
RETRY_SECONDS: Final = 0.05
_OPEN_ELSEWHERE: Final = (5, 32)
"""Errors of Windows: access denied, sharing violation."""
_NO_LINKS: Final = (
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
)
"""Errors of a file system without hard links."""
_PIECE_BYTES: Final = 1 << 18


class FileIdentity(NamedTuple):
    """Identity of a file, which all of its names share."""

    device: int
    inode: int


def create(path: str | Path) -> BinaryIO:
    """Create a file and open it for writing.

    Whatever has this name, even a link, is a `FileExistsError`.
    """
    return open(path, "xb")


def open_to_append(path: str | Path) -> BinaryIO:
    """Open a file to write at its end. A missing one is created."""
    return open(path, "ab")


def write_at(file: FileIO, position: int, data: memoryview | bytearray) -> int:
    """Write to an open file, and return the number of bytes written."""
    FileIO.seek(file, position)
    return FileIO.write(file, data)


def cut(file: IO[Any], size: int) -> None:
    """Cut an open file to a size, or extend it with zeros."""
    os.ftruncate(file.fileno(), size)


def sync_file(file: IO[Any]) -> None:
    """Sync the content of an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: str | Path) -> None:
    """Sync a file, or a folder with the names in it, to the disk."""
    if os.name == "nt" and os.path.isdir(path):
        return  # Windows cannot open a folder.
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(source: str | Path, target: str | Path) -> None:
    """Copy the content of a file to a new file, and sync it."""
    with open(source, "rb") as old, create(target) as new:
        shutil.copyfileobj(old, new, _PIECE_BYTES)
        sync_file(new)


def identity(file: IO[Any]) -> FileIdentity:
    """Return the identity of an open file."""
    status = os.fstat(file.fileno())
    return FileIdentity(status.st_dev, inode=status.st_ino)


def identity_at(path: str | Path) -> FileIdentity | None:
    """Return the identity of the file that has a name; None if there is none.

    A link is a file of its own.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return FileIdentity(status.st_dev, inode=status.st_ino)


def replace(source: str | Path, target: str | Path) -> None:
    """Rename a file over another, after waiting `OPEN_SECONDS` for it on Windows."""
    ends = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _OPEN_ELSEWHERE:
                raise
            if time.monotonic() >= ends:
                reason = (
                    "another program has it open. Close it, and run the command again"
                )
                raise PermissionError(errno.EBUSY, reason, str(target)) from None
            time.sleep(RETRY_SECONDS)


def link(source: str | Path, target: str | Path) -> None:
    """Give a file a second name. If the name exists, that is a `FileExistsError`.

    On a file system without hard links, the file is renamed.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            reason = os.strerror(errno.EEXIST)
            raise FileExistsError(errno.EEXIST, reason, str(target)) from None
        replace(source, target)


def remove(path: str | Path, *, missing_ok: bool = False) -> None:
    """Remove a file."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def make_folder(path: str | Path) -> None:
    """Make a folder and those above it, unless it exists. Their names are synced."""
    folder = Path(path)
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    os.makedirs(path, exist_ok=True)
    for each in missing:
        sync(each.parent)


def remove_folder(path: str | Path) -> None:
    """Remove an empty folder."""
    os.rmdir(path)


def remove_tree(path: str | Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that is in it.

    With `ignore_errors`, what cannot be removed is left.
    """
    shutil.rmtree(path, ignore_errors=ignore_errors)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder in a folder that is locked, and remove it at the end.

    Another one that a killed run has left is removed first.
    """
    folder = parent / ".elmo-partial"
    remove_tree(folder, ignore_errors=True)
    os.mkdir(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)
