"""File for HDF5 that returns to its last checkpoint, even if the process is killed.

docs/architecture.md says why, and lists the steps of a checkpoint. The log file has the changed
pages, the size and the caller's state: when it has its name, the checkpoint is complete.

The two files are OUTPUT.partial and OUTPUT.partial.log. The log is created first: a file called
OUTPUT.partial without a log belongs to another program, and is never changed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from io import SEEK_CUR, SEEK_END, SEEK_SET, FileIO
from pathlib import Path
from typing import Any, Final

from elmo_cli.atomic import lock, renamed, replace_file, sync, unlock
from elmo_cli.errors import OutputError

PAGE_BYTES: Final = 4096
_ADVICE: Final = "of `elmo embed`. Move it away, or choose another output."

_FINISHED: Final[dict[str, Any]] = {"finished": True}
"""State of a complete file that still has to be renamed."""

Pages = dict[int, bytearray]
"""Pages of the file by their numbers, each (PAGE_BYTES,)."""


class ResumableFile(FileIO):
    """File object for `h5py.File`, locked against other processes.

    HDF5 would crash if one of its operations raised an error. Instead, the first error is stored
    as `error`, and nothing is written after it.
    """

    def __init__(self, final: Path) -> None:
        """Open the file at its last checkpoint, or create it; `final` is the complete file's name.

        A file that was completed by a process that was killed before renaming it is renamed and
        closed. A file that another process has open raises a `BlockingIOError`.
        """
        self.final = final
        self.path = final.with_name(f"{final.name}.partial")
        self.log = final.with_name(f"{self.path.name}.log")
        self.error: BaseException | None = None
        self.state: dict[str, Any] | None = None
        """State of the last checkpoint, or None without a checkpoint."""
        self._position = self._size = 0
        self._checkpoint_size = 0
        self._below = 0  # size at the last checkpoint, rounded up to a page
        self._pages: Pages = {}  # pages that have changed since the checkpoint
        self._lock = lock(final.with_name(f"{self.path.name}.lock"))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # Methods that HDF5 calls.

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Move to a position."""
        origins = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size}
        self._position = origins[whence] + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, up to the end of the file."""
        start, view = self._position, memoryview(buffer).cast("B")
        view = view[: max(0, self._size - start)]
        view[:] = self._read_at(start, len(view)).ljust(len(view), b"\0")
        for number, in_page, in_view in _parts(start, min(start + len(view), self._below)):
            if number in self._pages:
                view[in_view] = self._pages[number][in_page]
        self._position += len(view)
        return len(view)

    def write(self, data: Any, /) -> int:
        """Write bytes to the file, or to memory below the end of the last checkpoint."""
        view = memoryview(data).cast("B")
        self._attempt(lambda: self._write(view))
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Change the size of the file. The next checkpoint removes bytes of the last one."""
        self._size = self._position if size is None else size
        # The bytes behind the new size are zero if the file grows again.
        for number, in_page, _ in _parts(self._size, self._below):
            self._pages[number] = page = self._page(number)
            page[in_page] = bytes(len(page[in_page]))
        self._attempt(lambda: os.ftruncate(self.fileno(), max(self._size, self._checkpoint_size)))
        return self._size

    def flush(self) -> None:
        """Do nothing: only a checkpoint makes data safe."""

    # Methods that the owner calls.

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Make a checkpoint of everything written, with JSON values. HDF5 has closed the file.

        After an `OSError`, the previous checkpoint stays valid.
        """
        if self.error is not None:
            raise self.error
        os.ftruncate(self.fileno(), max(self._size, self._checkpoint_size))
        os.fsync(self.fileno())
        self._write_log(self._size, state, self._pages)
        self.state = state
        self._apply(self._size, self._pages)

    def finish(self) -> None:
        """Make a last checkpoint, and rename the file to its final name; see `checkpoint`."""
        self.checkpoint(_FINISHED)
        self._rename()

    def clear(self) -> None:
        """Remove the checkpoint, and empty the file."""
        self._write_log(0, None, {})
        self.state, self._position = None, 0
        self._apply(0, {})

    def discard(self) -> None:
        """Drop everything after the last checkpoint. Remove the file if it has no checkpoint."""
        os.ftruncate(self.fileno(), self._checkpoint_size)
        super().close()
        if self.state is None:
            self.path.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the file, and unlock it."""
        super().close()
        unlock(self._lock)
        self._lock = None

    def _rename(self) -> None:
        super().close()  # Windows cannot rename an open file.
        try:
            replace_file(self.path, self.final)
            self.log.unlink(missing_ok=True)
            sync(self.final.parent)
        finally:
            self.close()

    def _write(self, view: memoryview) -> None:
        n_below = max(0, min(len(view), self._below - self._position))
        for number, in_page, in_view in _parts(self._position, self._position + n_below):
            # HDF5 writes all names of a group for each new name: most pages do not change.
            page = self._page(number)
            if page[in_page] != view[in_view]:
                self._pages[number] = page
                page[in_page] = view[in_view]
        position, rest = self._position + n_below, view[n_below:]
        while rest:
            written = self._write_at(position, rest)
            position, rest = position + written, rest[written:]

    def _read_at(self, position: int, n_bytes: int) -> bytes:
        super().seek(position)
        return super().read(n_bytes)

    def _write_at(self, position: int, data: memoryview | bytearray) -> int:
        super().seek(position)
        return super().write(data)

    def _page(self, number: int) -> bytearray:
        """Return the current content of a page of the last checkpoint, shape (PAGE_BYTES,)."""
        if number in self._pages:
            return self._pages[number]
        content = self._read_at(number * PAGE_BYTES, PAGE_BYTES)
        return bytearray(content.ljust(PAGE_BYTES, b"\0"))

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except BaseException as error:  # It may be Ctrl-C.
                self.error = error

    def _open(self) -> None:
        if not os.path.lexists(self.path):
            if os.path.lexists(self.log):  # A run may have been killed while it finished.
                _read_log(self.log)
            self._write_log(0, None, {})
            self.path.touch()
        elif self.path.is_symlink() or not os.path.lexists(self.log):
            raise OutputError(f"{self.path}: not an unfinished output {_ADVICE}")
        super().__init__(self.path, "r+b")
        size, self.state, pages = _read_log(self.log)
        n_bytes = os.fstat(self.fileno()).st_size
        if n_bytes < size:
            raise OutputError(
                f"{self.path}: the file is truncated: expected {size:,} bytes, found {n_bytes:,}. "
                "Remove it and its log to start over."
            )
        self._apply(size, pages)
        if self.state == _FINISHED:
            self._rename()

    def _apply(self, size: int, pages: Pages) -> None:
        for number, page in pages.items():
            self._write_at(number * PAGE_BYTES, page)
        os.ftruncate(self.fileno(), size)
        os.fsync(self.fileno())
        self._pages, self._size, self._checkpoint_size = {}, size, size
        self._below = -(-size // PAGE_BYTES) * PAGE_BYTES

    def _write_log(self, size: int, state: dict[str, Any] | None, pages: Pages) -> None:
        """Write the log atomically: its SHA-256, one line of JSON, the changed pages."""
        header = json.dumps({"size": size, "state": state, "pages": list(pages)})
        content = b"".join([header.encode(), b"\n", *pages.values()])
        checksum = hashlib.sha256(content).hexdigest().encode()
        # The mode "x" does not follow a link.
        with renamed(self.log) as partial, open(partial, "xb") as file:
            file.writelines([checksum, b"\n", content])


def _read_log(path: Path) -> tuple[int, dict[str, Any] | None, Pages]:
    """Read the size of the file, the state of its owner and the changed pages."""
    checksum, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != checksum:
        raise OutputError(f"{path}: not a log of an unfinished output {_ADVICE}")
    line, _, body = content.partition(b"\n")
    header = json.loads(line)
    starts = range(0, len(body), PAGE_BYTES)
    pages = (bytearray(body[start : start + PAGE_BYTES]) for start in starts)
    return header["size"], header["state"], dict(zip(header["pages"], pages, strict=True))


def _parts(start: int, end: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield the pages of a range of bytes: number, part of the page, part of the range."""
    position = start
    while position < end:
        number, offset = divmod(position, PAGE_BYTES)
        length = min(PAGE_BYTES - offset, end - position)
        done = position - start
        yield number, slice(offset, offset + length), slice(done, done + length)
        position += length
