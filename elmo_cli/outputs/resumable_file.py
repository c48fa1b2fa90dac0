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

OUTPUT.partial and OUTPUT.partial.log are the two files. The log is there first: a file of
that name without a log is somebody else's, and left alone.
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable
from io import SEEK_CUR, SEEK_END, SEEK_SET, FileIO
from pathlib import Path
from typing import Any, Final

from elmo_cli.atomic import lock, sync, unlock, write_synced

PAGE_BYTES: Final = 4096
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

Pages = dict[int, bytearray]


class ResumableFile(FileIO):
    """A file object for `h5py.File`, locked against other processes.

    An operation of HDF5 that fails is not raised to HDF5, which would crash: the first
    such error is kept as `error`, and nothing is written any more.
    """

    def __init__(self, final: str | Path) -> None:
        """Open the file at its last checkpoint, or new where it has none.

        Args:
            final: the name that the file gets in the end.

        Raises:
            BlockingIOError: another process has it open.
            FileExistsError: a file with the name of the partial one or its log is no
                unfinished run.
            OSError: it cannot be opened.
        """
        self.final = Path(final)
        self.path = self.final.with_name(f"{self.final.name}.partial")
        self.log = self.path.with_name(f"{self.path.name}.log")
        self.error: BaseException | None = None
        self.state: dict[str, Any] | None = None
        """What the last checkpoint was made with; None where there is none."""
        self._position: int = 0
        self._size: int = 0
        self._kept: int = 0  # bytes of the last checkpoint, which the file must not lose
        self._pages: Pages = {}  # changed since, by number
        self._lock = lock(self.path.with_name(f"{self.path.name}.lock"))
        try:
            super().__init__(self._open(), "r+b")
            self._recover()
        except BaseException:
            self.close()
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
        self._write_log(self._size, state, self._pages)
        self.state = state
        self._apply(self._size, self._pages)

    def finish(self, state: dict[str, Any]) -> None:
        """Make a last checkpoint, and give the file its final name.

        Raises:
            OSError: it cannot be done; the checkpoint before stays.
        """
        self.checkpoint(state)
        os.replace(self.path, self.final)
        self.log.unlink(missing_ok=True)
        sync(self.final.parent)
        self.close()

    def clear(self) -> None:
        """Forget the checkpoint, and empty the file."""
        self._write_log(0, None, {})
        self.state, self._pages = None, {}
        self._position = self._size = self._kept = 0
        os.ftruncate(self.fileno(), 0)

    def discard(self) -> None:
        """Drop all that came after the last checkpoint; without one, the file itself."""
        if self.state is None:
            self.path.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
        else:
            os.ftruncate(self.fileno(), self._kept)
        self.close()

    def close(self) -> None:
        """Close the file, and let other processes have it."""
        super().close()
        unlock(self._lock)
        self._lock = None

    def _write(self, view: memoryview) -> None:
        below = max(0, min(len(view), self._kept - self._position))
        for number, start, end in _page_parts(self._position, below):
            at = number * PAGE_BYTES + start - self._position
            self._change(number, start, view[at : at + end - start])
        position, rest = self._position + below, view[below:]
        while rest:
            written = os.pwrite(self.fileno(), rest, position)
            position, rest = position + written, rest[written:]

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

    def _open(self) -> int:
        """Open the file; a new one, with its log, where there is no unfinished run."""
        has_log, is_there = os.path.lexists(self.log), os.path.lexists(self.path)
        if is_there and not has_log:
            raise FileExistsError(errno.EEXIST, "is no unfinished output", str(self.path))
        if not is_there:
            if has_log:  # of a run that was killed as it finished
                _read_log(self.log)
            self._write_log(0, None, {})
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
        return os.open(self.path, os.O_RDWR | _NO_LINK)

    def _recover(self) -> None:
        """Go back to the last checkpoint."""
        size, self.state, pages = _read_log(self.log)
        n_bytes = os.fstat(self.fileno()).st_size
        if n_bytes < size:
            raise OSError(
                errno.EINVAL,
                f"{self.path} is cut off: expected {size:,} bytes, found {n_bytes:,}; remove it "
                "and its log to start anew",
            )
        self._apply(size, pages)

    def _apply(self, size: int, pages: Pages) -> None:
        for number, page in pages.items():
            os.pwrite(self.fileno(), page, number * PAGE_BYTES)
        os.ftruncate(self.fileno(), size)
        os.fsync(self.fileno())
        self._pages, self._size, self._kept = {}, size, size

    def _write_log(self, size: int, state: dict[str, Any] | None, pages: Pages) -> None:
        """Write the log, whole or not at all.

        A line with the SHA-256 of all that follows; a line of JSON, with the size of the file,
        the state of its owner and the lengths of the changed pages by their numbers; these pages.
        """
        lengths = {str(number): len(page) for number, page in pages.items()}
        header = json.dumps({"size": size, "state": state, "pages": lengths}).encode() + b"\n"
        checksum = hashlib.sha256(header)
        for page in pages.values():
            checksum.update(page)
        parts: list[bytes | bytearray] = [checksum.hexdigest().encode() + b"\n", header]
        parts += pages.values()
        write_synced(self.log, lambda file: file.writelines(parts))


def _read_log(path: Path) -> tuple[int, dict[str, Any] | None, Pages]:
    """The size of the file, the state of its owner and the changed pages.

    Raises:
        FileExistsError: it is no log.
    """
    with open(os.open(path, os.O_RDONLY | _NO_LINK), "rb") as file:
        checksum, _, body = file.read().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise FileExistsError(errno.EEXIST, "is no log of an unfinished output", str(path))
    header, _, content = body.partition(b"\n")
    found = json.loads(header)
    pages, start = {}, 0
    for number, length in found["pages"].items():
        pages[int(number)] = bytearray(content[start : start + length])
        start += length
    return found["size"], found["state"], pages


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
