"""Atomic writes and locks. A file is written as `NAME.elmo-partial`, synced, then renamed.

No other program makes files of this name, so that one which a killed run has left can be removed.
"""

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors import ElmoError, MissingFolderError, OutputError, system_reason

if TYPE_CHECKING:
    import h5py
    from filelock import BaseFileLock

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_OPEN_ELSEWHERE = (5, 32)  # on Windows: access denied, sharing violation
OPEN_SECONDS = 2.0
RETRY_SECONDS = 0.05
_ADVICE = {
    errno.ENOSPC: "Make room",
    errno.EDQUOT: "Make room in your quota",
    errno.EBUSY: "Close the program that has it open",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
}
"""Remedies for an output that cannot be written, by the number of the error."""


def check_not_read(path: str | Path, sources: Iterable[str | Path | None]) -> None:
    """Raise an `OutputError` if a file to write is one of those that are read, by any name."""
    if os.path.exists(path):
        for source in sources:
            if (
                source is not None
                and os.path.exists(source)
                and os.path.samefile(path, source)
            ):
                raise OutputError(
                    f"{path}: the output is also an input. Choose another output."
                )


def check_output(
    path: str | Path, *sources: str | Path | None, overwrite: bool
) -> None:
    """Raise an `OutputError` if a file cannot be written, or is one of the `sources`."""
    path = Path(path)
    check_not_read(path, sources)
    # The methods of Path raise an error for a name that is too long.
    if os.path.exists(path):
        if not os.path.isfile(path):
            kind = "a directory" if os.path.isdir(path) else "a device or a pipe"
            raise OutputError(f"{path}: expected an output file, found {kind}")
        if not overwrite:
            raise OutputError(f"{path}: already exists. Use --overwrite to replace it.")
    if not path.parent.is_dir():
        raise MissingFolderError(
            f"{path}: the folder {path.parent} does not exist. Create it first."
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def output_error(path: Path, error: OSError) -> ElmoError:
    """Return the error for an output that cannot be written; return our own errors unchanged."""
    if isinstance(error, ElmoError):
        return error
    remedy = _ADVICE.get(error.errno or 0)
    advice = f". {remedy} and run the command again." if remedy else ""
    return OutputError(
        f"{path}: cannot write the output: {system_reason(error)}{advice}"
    )


@contextmanager
def renamed(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Write `NAME.elmo-partial` in this context. Sync and rename it at the end, unless it fails."""
    partial = partial or path.with_name(f"{path.name}.elmo-partial")
    try:
        partial.unlink(missing_ok=True)  # It may be a link.
        yield partial
        sync(partial)
        replace_file(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Open the context of `renamed`, and raise its errors as `OutputError`."""
    try:
        with renamed(Path(path)) as partial:
            yield partial
    except OSError as error:
        if isinstance(error, ElmoError):
            raise
        raise OutputError(
            f"{path}: cannot be written: {error.strerror or error}"
        ) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text to a file atomically."""
    with replaced(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def replace_file(source: Path, target: Path) -> None:
    """Rename a file over another. Wait `OPEN_SECONDS` for programs on Windows to close it."""
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


def sync(path: Path) -> None:
    """Sync a file, or a folder with the names in it, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder.
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, *, seconds: float = 0) -> "BaseFileLock | None":
    """Create a file, and lock it. Return None, with a warning, if the file system has no locks.

    A `BlockingIOError` ends the wait for another process after some `seconds`; -1 waits forever.
    """
    from filelock import FileLock, Timeout

    file_lock = FileLock(path)
    try:
        file_lock.acquire(timeout=seconds)
    except Timeout:
        raise BlockingIOError(
            errno.EAGAIN, "another process has locked it", str(path)
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logger.warning(
            "Warning: %s: the file system has no locks. Let only one process write there.",
            path.parent,
        )
        return None
    return file_lock


def unlock(file_lock: "BaseFileLock | None") -> None:
    """Release a lock, and remove its file."""
    if file_lock is not None:
        # The file is removed while it is locked: filelock never locks a file without a name.
        with suppress(OSError):
            os.unlink(file_lock.lock_file)
        file_lock.release()


@contextmanager
def locked_folder(
    folder: Path,
    error_of: Callable[[OSError], Exception],
    on_wait: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Make a folder, and lock it against other processes. Remove it at the end if it is empty.

    `error_of` returns the error to raise for one of the system, such as a `BlockingIOError`.
    `on_wait` is called before waiting for another process. None does not wait.
    """
    path = folder / LOCK_FILE
    try:
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = lock(path)
        except BlockingIOError:
            if on_wait is None:
                raise
            on_wait()
            held = lock(path, seconds=-1)
    except OSError as error:
        raise error_of(error) from None
    try:
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for each in made:
                each.rmdir()


def open_hdf5(path: str | Path, **settings: Any) -> "h5py.File":
    """Open an HDF5 file, also without locks, which complete files of this package do not need."""
    import h5py

    try:
        return h5py.File(path, "r", **settings)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        # The variable HDF5_USE_FILE_LOCKING takes precedence over the argument.
        return h5py.File(path, "r", locking=False, **settings)
