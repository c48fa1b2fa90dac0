"""Locks of files and folders against other processes."""

import errno
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from elmo_cli.errors.exceptions import ElmoError, OutputError
from elmo_cli.errors.messages import Message
from elmo_cli.files import disk

if TYPE_CHECKING:
    from filelock import BaseFileLock

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
"""Name of the lock of a folder."""
_LOCK_CONTENT: Final = re.compile(rb"|[0-9]+\n.*", re.DOTALL)
"""Content of a lock: nothing, or a process where the file system has no locks."""
NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors of a file system that has no locks."""


_RESERVED: Final[dict[str, "HeldLock | None"]] = {}
"""Locks of the blocks of `reserved`, by their real paths."""


class HeldLock(NamedTuple):
    """Lock that this process holds."""

    file_lock: "BaseFileLock"
    identity: disk.FileIdentity | None
    """Identity of its file, which somebody else may remove or replace."""


def lock(path: Path, *, seconds: float = 0) -> HeldLock | None:
    """Create a file, and lock it.

    Another process may have locked it: a `BlockingIOError` ends the wait after some
    `seconds`, by default at once; -1 waits forever. On a file system without locks, a
    warning is logged, and the answer is None. A file with other content than a lock has
    is an `OutputError`.
    """
    from filelock import FileLock, Timeout

    if os.path.realpath(path) in _RESERVED:
        return _RESERVED[os.path.realpath(path)]
    if os.path.isfile(path) and not _LOCK_CONTENT.fullmatch(path.read_bytes()[:1000]):
        raise OutputError(f"{path}: not a lock of `elmo`", remedy="Move it away.")
    existed = os.path.lexists(path)
    file_lock = FileLock(path)
    try:
        with warnings.catch_warnings():
            # Where the system has no such call, filelock writes its process into the
            # file, and warns.
            warnings.simplefilter("ignore", UserWarning)
            file_lock.acquire(timeout=seconds)
    except Timeout:
        if not path.exists():
            disk.create(path).close()  # Where no file can be made, the system says why.
        reason = "another process has locked it"
        raise BlockingIOError(errno.EAGAIN, reason, str(path)) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warning = Message(
            f"{path.parent}: the file system has no locks",
            remedy="Let only one process write there.",
        )
        logger.warning("%s", warning)
        if not existed:
            disk.remove(path, missing_ok=True)
        return None
    return HeldLock(file_lock, disk.identity_at(path))


def unlock(held: HeldLock | None) -> None:
    """Release a lock, and remove its file, unless the lock is `reserved`."""
    if held is None or held in _RESERVED.values():
        return
    # The file is removed while it is locked: filelock never locks a file without a
    # name.
    path = held.file_lock.lock_file
    with suppress(OSError):
        if disk.identity_at(path) == held.identity:
            disk.remove(path)
    held.file_lock.release()


@contextmanager
def reserved(path: Path) -> Iterator[None]:
    """Hold a lock for a block, in which `lock` returns it."""
    key = os.path.realpath(path)
    held = lock(path)
    _RESERVED[key] = held
    try:
        yield
    finally:
        del _RESERVED[key]
        unlock(held)


@contextmanager
def locked_folder(
    folder: Path,
    lock_error: Callable[[OSError], Exception],
    on_wait: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Make a folder, lock it against other processes, and remove it if it stays empty.

    `lock_error` returns the error to raise for one of the system, such as a
    `BlockingIOError`. `on_wait` is called before waiting for another process; without
    it, a lock of another process is such an error.
    """
    path = folder / LOCK_FILE
    try:
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        disk.make_folder(folder)
        try:
            held = lock(path)
        except BlockingIOError:
            if on_wait is None:
                raise
            on_wait()
            held = lock(path, seconds=-1)
    except OSError as error:
        if isinstance(error, ElmoError):
            raise
        raise lock_error(error) from None
    try:
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for each in made:
                disk.remove_folder(each)
