"""Atomic writes, and locks: write `NAME.partial`, fsync, rename."""

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.errors import OutputError, system_reason

if TYPE_CHECKING:
    from filelock import BaseFileLock

logger = logging.getLogger(__name__)

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system without locks says."""
_OPEN_ELSEWHERE = (5, 32)
"""Numbers of Windows for a file that another program has open: access denied, sharing violation."""
_OPEN_SECONDS = 2.0
_RETRY_SECONDS = 0.05
_ADVICE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room in your quota",
    errno.EBUSY: "close the program that has it open",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}
"""What to do about an output that cannot be written, by the number of the error."""


def check_output(path: str | Path, *, overwrite: bool, source: str | Path | None = None) -> None:
    """Make sure that a file can be written, before anything is computed; an `OutputError` if not.

    Nor is it the `source`.
    """
    path = Path(path)
    # Not the methods of Path: they raise where a name is too long.
    if os.path.exists(path):
        if source is not None and os.path.exists(source) and os.path.samefile(path, source):
            raise OutputError(f"{path} is the input; choose another output")
        if not os.path.isfile(path):
            found = "a directory" if os.path.isdir(path) else "a device or a pipe"
            raise OutputError(f"{path}: expected an output file, found {found}")
        if not overwrite:
            raise OutputError(f"{path} exists already; --overwrite replaces it")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def output_error(path: Path, error: OSError) -> OutputError:
    """What to say of an output that cannot be written; an error of ours as it is."""
    if isinstance(error, OutputError):
        return error
    advice = f"; {_ADVICE[error.errno]} and run the command again" if error.errno in _ADVICE else ""
    return OutputError(f"{path}: cannot write the output: {system_reason(error)}{advice}")


@contextmanager
def renamed(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Give the name `NAME.partial`, or another, whose file is synced and becomes `path`.

    After an `OSError`, a file of the name `path` is as it was.
    """
    partial = partial or path.with_name(f"{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)  # a link, perhaps
        yield partial
        sync(partial)
        replace_file(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Do what `renamed` does; an error is an `OutputError`."""
    try:
        with renamed(Path(path)) as partial:
            yield partial
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def replace_file(source: Path, target: Path) -> None:
    """Rename a file over another. Wait until other programs have closed it, as Windows demands.

    Raises:
        OSError: The file cannot be replaced, or is still open after `_OPEN_SECONDS`.
    """
    ends = time.monotonic() + _OPEN_SECONDS
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _OPEN_ELSEWHERE:
                raise
            if time.monotonic() >= ends:
                reason = "another program has it open. Close it, and run the command again"
                raise PermissionError(errno.EBUSY, reason, str(target)) from None
            time.sleep(_RETRY_SECONDS)


def sync(path: Path) -> None:
    """Make a file survive a crash; or a folder, with the names in it."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folder
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, *, seconds: float = 0) -> "BaseFileLock | None":
    """Lock a file, which is made for that, against other processes; -1 seconds wait for ever.

    Returns:
        The lock, for `unlock`. None, with a warning, where the file system has no locks.

    Raises:
        BlockingIOError: another process holds it.
    """
    from filelock import FileLock, Timeout

    found = FileLock(path)
    try:
        found.acquire(timeout=seconds)
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, "another process has locked it", str(path)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logger.warning("Warning: %s: no locks here; let no two processes write it", path.parent)
        return None
    return found


def unlock(held: "BaseFileLock | None") -> None:
    """Release a lock, and remove its file."""
    if held is not None:
        # Removed while it is held: filelock takes no lock on a file that has lost its name.
        with suppress(OSError):
            os.unlink(held.lock_file)
        held.release()
