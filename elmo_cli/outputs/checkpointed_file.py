"""A file under HDF5 that goes back to its last checkpoint, whatever ends the process.

HDF5 is not crash-safe: it changes its index in place, at any time, and cannot bear
a write that fails. So what it writes is split in two. Bytes beyond the end of the
last checkpoint go to the file at once; nothing that matters is there yet. Changes to
bytes before it are kept in memory, a page each, until the next checkpoint:

    1. the file is synced, with all that was appended
    2. the changed pages, its size and the caller's state go to a log file, which is
       synced and renamed to its name: from here on, the checkpoint is made
    3. the pages go to the file, which is cut to its size

A kill before the rename leaves the checkpoint before, for which nothing in the file
was changed. A kill after it leaves the log, from which step 3 is done again.
"""

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from io import SEEK_CUR, SEEK_END, SEEK_SET, FileIO
from pathlib import Path
from typing import Any

from elmo_cli.atomic import sync, write_synced
from elmo_cli.outputs.checkpoint_log import PAGE_BYTES, decode_log, encode_log

COPIED_BYTES = 1 << 26
BEGUN_BYTES = 1 << 23
"""Appended bytes that the system is told to begin to write: a checkpoint then waits for less."""


class CheckpointedFile(FileIO):
    """A file object for `h5py.File`, locked against other processes.

    An operation of HDF5 that fails is not raised to HDF5, which would crash: the first
    such error is kept as `error`, and nothing is written any more.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file at its last checkpoint, or new where it has none.

        Raises:
            BlockingIOError: another process has it open.
            OSError: it cannot be opened.
        """
        super().__init__(_open_locked(path), "r+b")
        self.path = Path(path)
        self.log = self.path.with_name(self.path.name + ".log")
        self.error: BaseException | None = None
        self.state: dict[str, Any] | None = None
        """What the last checkpoint was made with; None where there is none."""
        self._position: int = 0
        self._size: int = 0
        self._kept: int = 0  # bytes of the last checkpoint, which the file must not lose
        self._begun: int = 0  # bytes that the system has begun to write
        self._pages: dict[int, bytearray] = {}  # changed since, by number
        try:
            self._recover()
        except BaseException:
            super().close()
            raise

    # --- what HDF5 calls

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Move to a position."""
        origins = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size}
        self._position = origins[whence] + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, up to the end of the file."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size - self._position))
        content = os.pread(self.fileno(), wanted, self._position).ljust(wanted, b"\0")
        view[:wanted] = content
        below = max(0, min(wanted, self._kept - self._position))
        for number, start, end in _page_parts(self._position, below):
            if number in self._pages:
                at = number * PAGE_BYTES + start - self._position
                view[at : at + end - start] = self._pages[number][start:end]
        self._position += wanted
        return wanted

    def write(self, data: Any, /) -> int:
        """Write bytes: to the file, or to memory where the last checkpoint has bytes."""
        view = memoryview(data).cast("B")
        self._attempt(lambda: self._write(view))
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Make the file longer or shorter; bytes of the last checkpoint stay until the next."""
        self._size = self._position if size is None else size
        # What is cut off reads as zero if the file grows again. HDF5 cuts little, if ever.
        cut = max(0, self._kept - self._size)
        for number, start, end in _page_parts(self._size, cut):
            self._page(number)[start:end] = bytes(end - start)
        self._attempt(lambda: os.ftruncate(self.fileno(), max(self._size, self._kept)))
        return self._size

    def flush(self) -> None:
        """Nothing: only a checkpoint makes anything safe."""

    # --- what its owner calls

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Make what was written so far survive the process. HDF5 must have been flushed.

        Args:
            state: what `state` is when the file is opened again; JSON.

        Raises:
            OSError: it cannot be done; the checkpoint before stays.
        """
        if self.error is not None:
            raise self.error
        os.ftruncate(self.fileno(), max(self._size, self._kept))
        os.fsync(self.fileno())
        parts = encode_log(self._size, state, self._pages)
        write_synced(self.log, lambda file: file.writelines(parts))
        self.state = state
        self._apply(self._size, self._pages)

    def copy_from(self, path: Path) -> None:
        """Become a copy of another file. Where the file system can, both share their blocks.

        Raises:
            OSError: it cannot be done.
        """
        self.clear()
        with open(path, "rb") as source:
            self._size = os.fstat(source.fileno()).st_size
            while _copy_some(source.fileno(), self.fileno()):
                pass
        if os.lseek(self.fileno(), 0, SEEK_CUR) != self._size:
            raise OSError(errno.EIO, f"{path} changed while it was copied")

    def finish(self, final: Path) -> None:
        """Give the file its final name, after a last checkpoint."""
        os.replace(self.path, final)
        self.log.unlink(missing_ok=True)
        sync(final.parent)
        self.close()

    def clear(self) -> None:
        """Forget the checkpoint, and empty the file."""
        self.log.unlink(missing_ok=True)
        self.state, self._pages, self._position = None, {}, 0
        self._size = self._kept = self._begun = 0
        os.ftruncate(self.fileno(), 0)

    def discard(self) -> None:
        """Drop all that came after the last checkpoint; without one, the file itself."""
        if self.state is None:
            self.path.unlink(missing_ok=True)
        else:
            os.ftruncate(self.fileno(), self._kept)
        self.close()

    def _write(self, view: memoryview) -> None:
        below = max(0, min(len(view), self._kept - self._position))
        for number, start, end in _page_parts(self._position, below):
            at = number * PAGE_BYTES + start - self._position
            self._change(number, start, view[at : at + end - start])
        position, rest = self._position + below, view[below:]
        while rest:
            written = os.pwrite(self.fileno(), rest, position)
            position, rest = position + written, rest[written:]
        self._begin_to_sync(position)

    def _begin_to_sync(self, end: int) -> None:
        """Have the system write what was appended, while more is computed."""
        if end - self._begun >= BEGUN_BYTES and hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # a file system that takes no advice
                length = end - self._begun
                os.posix_fadvise(self.fileno(), self._begun, length, os.POSIX_FADV_DONTNEED)
            self._begun = end

    def _change(self, number: int, start: int, part: memoryview) -> None:
        """Change a part of a page in memory.

        Where it is the same there is nothing to keep: HDF5 writes the names of a group as one
        block, whenever one comes in.
        """
        if number not in self._pages:
            there = os.pread(self.fileno(), len(part), number * PAGE_BYTES + start)
            if there == part:
                return
        self._page(number)[start : start + len(part)] = part

    def _page(self, number: int) -> bytearray:
        """A page of the last checkpoint, for change in memory."""
        if number not in self._pages:
            # The last page may go on with bytes that came later: they are in the file.
            start = number * PAGE_BYTES
            length = min(PAGE_BYTES, self._kept - start)
            self._pages[number] = bytearray(os.pread(self.fileno(), length, start))
        return self._pages[number]

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except BaseException as error:  # Ctrl-C too, which may come here
                self.error = error

    def _recover(self) -> None:
        """Go back to the last checkpoint."""
        found = decode_log(self.log)
        if found is None:
            os.ftruncate(self.fileno(), 0)
            return
        size, state, pages = found
        n_bytes = os.fstat(self.fileno()).st_size
        if n_bytes == 0 < size:  # it was finished, or removed, and its log is left
            self.log.unlink()
            return
        if n_bytes < size:
            raise OSError(
                errno.EINVAL,
                f"{self.path} is cut off: expected {size:,} bytes, found {n_bytes:,}; remove it to "
                "start anew",
            )
        self.state = state
        self._apply(size, pages)

    def _apply(self, size: int, pages: dict[int, bytearray]) -> None:
        for number, page in pages.items():
            os.pwrite(self.fileno(), page, number * PAGE_BYTES)
        os.ftruncate(self.fileno(), size)
        os.fsync(self.fileno())
        self._pages, self._size, self._kept, self._begun = {}, size, size, size


def _open_locked(path: str | Path) -> int:
    """Open and lock the file of a name, new where there is none.

    Before the lock is there, the process that had it may give the file its final name, or
    remove it: then it is another file that has this name now.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:  # removed since
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _copy_some(source: int, target: int) -> int:
    """Copy some bytes from one descriptor to another, at their positions; 0 at the end."""
    try:
        return os.copy_file_range(source, target, COPIED_BYTES)
    except OSError as error:
        # Two file systems, an old kernel, or a file system that cannot.
        if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
    content = os.read(source, COPIED_BYTES)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]
    return len(content)


def _page_parts(position: int, length: int) -> list[tuple[int, int, int]]:
    """The pages that a range of bytes touches: number, start and end inside the page."""
    end = position + length
    return [
        (
            number,
            max(position - number * PAGE_BYTES, 0),
            min(end - number * PAGE_BYTES, PAGE_BYTES),
        )
        for number in range(position // PAGE_BYTES, -(-end // PAGE_BYTES))
        if length
    ]
