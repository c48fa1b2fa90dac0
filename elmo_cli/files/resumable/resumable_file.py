"""File for HDF5 that returns to its last checkpoint, even if the process is killed.

docs/architecture.md says why, and lists the steps of a checkpoint. The log file has the changed
pages, the size, a checksum of the whole file and the caller's state: when it has its name, the
checkpoint is complete.

The two files are OUTPUT.partial and OUTPUT.partial.log. The log is created first: a file called
OUTPUT.partial without a log belongs to another program, and is never changed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import SEEK_CUR, SEEK_END, SEEK_SET, FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from elmo_cli.errors.exceptions import OutputError, StoppedError
from elmo_cli.files.atomic import renamed, replace_file, sync
from elmo_cli.files.locks import lock, unlock

PAGE_BYTES: Final = 4096


CHECKED_BYTES: Final = 256 * PAGE_BYTES


_WEIGHTS: Final = np.arange(
    1, PAGE_BYTES // 4, 2, dtype=np.uint64
)  # odd, one per word of a page


_ADVICE: Final = "`elmo embed` output. Move it away, or choose another output."


_START_OVER: Final = "Use --overwrite to start over."


# State of a complete file that still has to be renamed.
_FINISHED: Final[dict[str, Any]] = {"finished": True}


Stop = Callable[[], bool]


Pages = dict[int, bytearray]  # pages of the file by their numbers, each (PAGE_BYTES,)


class _Log(NamedTuple):
    size: int
    state: dict[str, Any] | None
    pages: Pages
    checksum: (
        int | None
    )  # checksum of the file with these pages; None in a log of an older version


_EMPTY: Final = _Log(0, None, {}, 0)


class ResumableFile(FileIO):
    """File object for `h5py.File`, locked against other processes.

    HDF5 would crash if one of its operations raised an error. Instead, the first error is stored
    as `error`, and nothing is written after it.
    """

    def __init__(
        self, final: Path, *, overwrite: bool = False, should_stop: Stop = lambda: False
    ) -> None:
        """Open the file at its last checkpoint, or create it; `final` is the complete file's name.

        A complete file is renamed and closed. The whole file is read to find damage, which is an
        `OutputError` without `overwrite`. A file that is open elsewhere raises a `BlockingIOError`.
        """
        self.final = final
        self.path, self.log, lock_path = _paths(final)
        self.error: BaseException | None = None
        # state of the last checkpoint, if there is one
        self.state: dict[str, Any] | None = None
        self._position = self._size = 0
        self._kept_size = 0  # size that no checkpoint exceeds
        self._below = 0  # size at the last checkpoint, rounded up to a page
        self._checksum = 0  # checksum of the last checkpoint
        self._pages: Pages = {}  # pages that have changed since the checkpoint
        self._lock = lock(lock_path)
        try:
            self._open(should_stop, overwrite=overwrite)
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
        for number, in_page, in_view in _parts(
            start, min(start + len(view), self._below)
        ):
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
        self._attempt(
            lambda: os.ftruncate(self.fileno(), max(self._size, self._kept_size))
        )
        return self._size

    def flush(self) -> None:
        """Do nothing: only a checkpoint makes data safe."""

    # Methods that the owner calls.

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Make a checkpoint with JSON values. After an `OSError`, it or the last one is valid."""
        if self.error is not None:
            raise self.error
        # If writing the log fails, it may have its name or not. Both checkpoints keep their bytes.
        self._kept_size = max(self._size, self._kept_size)
        self._cut(self._kept_size)
        checksum = self._checksum + self.checksum_of(self._below, self._size)
        for number, page in self._pages.items():
            before = self._read_at(number * PAGE_BYTES, PAGE_BYTES)
            checksum += _page_checksum(page) - _page_checksum(before)
        log = _Log(self._size, state, self._pages, checksum % 2**64)
        self._write_log(log)
        self.state = state
        self._apply(log)

    def finish(self) -> None:
        """Make a last checkpoint if there is one, and rename the file to its final name."""
        if self.error is not None:
            raise self.error
        if self.state is not None:
            self.checkpoint(_FINISHED)
        self._cut(self._size)
        self._rename()

    def clear(self) -> None:
        """Remove the checkpoint, and empty the file. Close it after an error."""
        try:
            self._write_log(_EMPTY)
            self.state, self._position = None, 0
            self._apply(_EMPTY)
        except BaseException:
            self.close()
            raise

    def discard(self) -> None:
        """Drop everything after the last checkpoint. Remove the file if it has no checkpoint."""
        with suppress(OSError):  # The next process cuts the file too.
            os.ftruncate(self.fileno(), self._kept_size)
        with suppress(OSError):
            super().close()
            if self.state is None:
                self.path.unlink(missing_ok=True)
                self.log.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the file, and unlock it."""
        try:
            super().close()
        finally:
            unlock(self._lock)
            self._lock = None

    def _rename(self) -> None:
        try:
            super().close()  # Windows cannot rename an open file.
            replace_file(self.path, self.final)
            self.log.unlink(missing_ok=True)
            sync(self.final.parent)
        finally:
            self.close()

    def _write(self, view: memoryview) -> None:
        n_below = max(0, min(len(view), self._below - self._position))
        for number, in_page, in_view in _parts(
            self._position, self._position + n_below
        ):
            # HDF5 writes all names of a group for each new name: most pages do not change.
            page = self._page(number)
            if page[in_page] != view[in_view]:
                self._pages[number] = page
                page[in_page] = view[in_view]
        position, rest = self._position + n_below, view[n_below:]
        while rest:
            written = self.write_at(position, rest)
            position, rest = position + written, rest[written:]

    def _read_at(self, position: int, n_bytes: int) -> bytes:
        super().seek(position)
        return super().read(n_bytes)

    def write_at(self, position: int, data: memoryview | bytearray) -> int:
        """Write to the file itself, and return the number of bytes written."""
        super().seek(position)
        return super().write(data)

    def _page(self, number: int) -> bytearray:
        """Return the current content of a page of the last checkpoint, shape (PAGE_BYTES,)."""
        if number in self._pages:
            return self._pages[number]
        content = self._read_at(number * PAGE_BYTES, PAGE_BYTES)
        return bytearray(content.ljust(PAGE_BYTES, b"\0"))

    def _cut(self, size: int) -> None:
        os.ftruncate(self.fileno(), size)
        os.fsync(self.fileno())

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except BaseException as error:  # It may be Ctrl-C.
                self.error = error

    def _open(self, should_stop: Stop, *, overwrite: bool) -> None:
        if not os.path.lexists(self.path):
            if os.path.lexists(self.log) and not overwrite:
                _read_log(self.log)  # A run may have been killed while it finished.
            self._write_log(_EMPTY)
            self.path.touch()
        elif self.path.is_symlink() or not self.log.is_file():
            raise OutputError(f"{self.path}: not an unfinished {_ADVICE}")
        super().__init__(self.path, "r+b")
        try:
            self._restore(_read_log(self.log), should_stop)
        except OutputError:
            if not overwrite:
                raise
            self.clear()
        if self.state == _FINISHED:
            self._rename()

    def _restore(self, log: _Log, should_stop: Stop) -> None:
        """Restore the checkpoint of a log; raise an `OutputError` if bytes of it have changed."""
        n_bytes = os.fstat(self.fileno()).st_size
        if n_bytes < log.size:
            problem = f"expected {log.size:,} bytes, found {n_bytes:,}. {_START_OVER}"
            raise OutputError(f"{self.path}: the file is truncated: {problem}")
        self._apply(log)
        if log.checksum not in (None, self.checksum_of(0, log.size, should_stop)):
            problem = f"its bytes have changed since the last checkpoint. {_START_OVER}"
            raise OutputError(f"{self.path}: the file is damaged: {problem}")
        self.state = log.state

    def _apply(self, log: _Log) -> None:
        for number, page in log.pages.items():
            self.write_at(number * PAGE_BYTES, page)
        self._cut(log.size)
        self._pages, self._size, self._kept_size = {}, log.size, log.size
        self._below = -(-log.size // PAGE_BYTES) * PAGE_BYTES
        self._checksum = log.checksum or 0

    def checksum_of(
        self, start: int, end: int, should_stop: Stop = lambda: False
    ) -> int:
        """Return the checksum of the file from the start of a page on: the sum of its pages'."""
        checksum = 0
        for position in range(start, end, CHECKED_BYTES):
            if (
                position > start
                and position % (64 * CHECKED_BYTES) == 0
                and should_stop()
            ):
                raise StoppedError(f"Stopped while {self.path} was checked.")
            content = self._read_at(position, min(CHECKED_BYTES, end - position))
            checksum += _page_checksum(content)
        return checksum % 2**64

    def _write_log(self, log: _Log) -> None:
        """Write the log atomically: its SHA-256, one line of JSON, the changed pages."""
        header = json.dumps(log._asdict() | {"pages": list(log.pages)})
        content = b"".join([header.encode(), b"\n", *log.pages.values()])
        checksum = hashlib.sha256(content).hexdigest().encode()
        # The mode "x" does not follow a link.
        with renamed(self.log) as partial, open(partial, "xb") as file:
            file.writelines([checksum, b"\n", content])


def _page_checksum(content: bytes | bytearray) -> int:
    """Return the sum of the weighted words of some pages, ten times as fast as a CRC."""
    padded = content.ljust(-(-len(content) // PAGE_BYTES) * PAGE_BYTES, b"\0")
    words = np.frombuffer(padded, "<u8").reshape(-1, len(_WEIGHTS))
    return int((words.sum(axis=0) * _WEIGHTS).sum())


def _read_log(path: Path) -> _Log:
    """Read a log, which belongs to this program if its hash is right."""
    # Opening a named pipe would wait for its writer.
    checksum, _, content = (path.read_bytes() if path.is_file() else b"").partition(
        b"\n"
    )
    if hashlib.sha256(content).hexdigest().encode() != checksum:
        raise OutputError(f"{path}: not a log of an unfinished {_ADVICE} {_START_OVER}")
    line, _, body = content.partition(b"\n")
    header = json.loads(line)
    starts = range(0, len(body), PAGE_BYTES)
    pages = (bytearray(body[start : start + PAGE_BYTES]) for start in starts)
    numbered = dict(zip(header["pages"], pages, strict=True))
    return _Log(header["size"], header["state"], numbered, header.get("checksum"))


def _paths(final: Path) -> tuple[Path, Path, Path]:
    """Return the unfinished file of an output, its log and its lock."""
    name = f"{final.name}.partial"
    return (
        final.with_name(name),
        final.with_name(f"{name}.log"),
        final.with_name(f"{name}.lock"),
    )


def remove_log(final: Path) -> None:
    """Remove the log of a complete file, which a kill after renaming the file leaves."""
    partial, log, lock_path = _paths(final)
    if log.is_file() and not os.path.lexists(partial):
        with suppress(OSError, OutputError):
            _read_log(log)
            held = lock(lock_path)
            if not os.path.lexists(partial):  # Another run may have begun.
                log.unlink()
            unlock(held)


def _parts(start: int, end: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield the pages of a range of bytes: number, part of the page, part of the range."""
    position = start
    while position < end:
        number, offset = divmod(position, PAGE_BYTES)
        length = min(PAGE_BYTES - offset, end - position)
        done = position - start
        yield number, slice(offset, offset + length), slice(done, done + length)
        position += length
