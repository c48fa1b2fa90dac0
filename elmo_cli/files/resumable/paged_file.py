"""File whose bytes of the last checkpoint stay on the disk while HDF5 changes them."""

from collections.abc import Callable, Iterator
from io import SEEK_CUR, SEEK_END, SEEK_SET, FileIO
from pathlib import Path
from typing import Any, Final

from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import StoppedError
from elmo_cli.files import disk
from elmo_cli.files.resumable.pages import (
    PAGE_BYTES,
    Pages,
    checksum_of_pages,
    old_checksum_of_pages,
    page_spans,
    rounded_up,
)

CHECKED_BYTES: Final = 256 * PAGE_BYTES
"""Number of bytes that are read at a time for a checksum."""
_READS_PER_STOP: Final = 64
"""Number of such reads between two calls of `should_stop`."""

Stop = Callable[[], bool]


class PagedFile(FileIO):
    """File object for `h5py.File`, which holds changes of older bytes in memory.

    Bytes behind the last checkpoint are written to the disk at once. Changes of its
    pages are held in memory, until `apply` has written those of a new one.

    Three sizes differ. If the last checkpoint has 5,000 bytes, and HDF5 has appended
    up to byte 9,000 and then truncated to 4,500:

        size             4,500   size that HDF5 sees
        _held_end        8,192   end of the checkpoint's pages, held in memory
        _min_disk_size   5,000   size below which the file on the disk is not cut

    HDF5 would crash if one of its operations raised an error. Instead, the first error
    is stored as `error`, and nothing is written after it.
    """

    def __init__(self, path: Path) -> None:
        """Open an existing file for reading and writing."""
        super().__init__(path, "r+b")
        self.path = path
        self.error: BaseException | None = None
        self.size = 0
        """Size of the file as HDF5 sees it."""
        self.changed: Pages = {}
        """Pages of the last checkpoint that have changed since."""
        self._position = 0
        self._held_end = 0
        """End of the last checkpoint's pages. Changes before it are held in memory."""
        self._min_disk_size = 0
        """Size of the largest checkpoint that may count, now or after a kill."""

    # Methods that HDF5 calls.

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Move to a position."""
        origins = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self.size}
        self._position = origins[whence] + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, up to the end of the file."""
        start = self._position
        view = memoryview(buffer).cast("B")
        view = view[: max(0, self.size - start)]
        # Bytes after the end on the disk are zero.
        view[:] = self._read_at(start, len(view)).ljust(len(view), b"\0")
        end = start + len(view)
        for span in page_spans(start, min(end, self._held_end)):
            if span.page_index in self.changed:
                view[span.in_range] = self.changed[span.page_index][span.in_page]
        self._position += len(view)
        return len(view)

    def write(self, data: Any, /) -> int:
        """Write bytes to the file, or to memory where the last checkpoint has bytes."""
        view = memoryview(data).cast("B")
        self._attempt(lambda: self._write(view))
        self._position += len(view)
        self.size = max(self.size, self._position)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Change the size. Bytes of the last checkpoint are kept until the next one."""
        self.size = self._position if size is None else size
        # The bytes behind the new size are zero if the file grows again.
        for span in page_spans(self.size, self._held_end):
            page = self._page(span.page_index)
            page[span.in_page] = bytes(len(page[span.in_page]))
            self.changed[span.page_index] = page
        size_on_disk = max(self.size, self._min_disk_size)
        self._attempt(lambda: disk.cut(self, size_on_disk))
        return self.size

    def flush(self) -> None:
        """Do nothing: only a checkpoint makes data safe."""

    # Methods that the owner of the file calls.

    def sync_appended(self) -> None:
        """Sync the bytes that the next checkpoint appends, and keep them from now on.

        Until that checkpoint is applied, either of the two may count: writing its log
        can fail before or after the log has its name.
        """
        self._min_disk_size = max(self.size, self._min_disk_size)
        disk.cut(self, self._min_disk_size)
        disk.sync_file(self)

    def checksum_after(self, checksum: int) -> int:
        """Return the checksum of the file as HDF5 sees it.

        `checksum` is the one of the last checkpoint. Only new and changed pages are
        read.
        """
        indices = list(self.changed)
        before = [self._page_on_disk(index) for index in indices]
        after = [self.changed[index] for index in indices]
        checksum += self.checksum_of(self._held_end, self.size)
        checksum -= checksum_of_pages(b"".join(before), indices)
        checksum += checksum_of_pages(b"".join(after), indices)
        return checksum % 2**64

    def apply(self, pages: Pages, size: int) -> None:
        """Write the pages of a checkpoint to the disk, and cut the file to its size.

        They are not synced: the log has them until the next checkpoint syncs them.
        """
        for index, page in pages.items():
            disk.write_at(self, index * PAGE_BYTES, page)
        disk.cut(self, size)
        self.changed = {}
        self.size = size
        self._held_end = rounded_up(size)
        self._min_disk_size = size

    def cut_to_checkpoint(self) -> None:
        """Remove the bytes behind every checkpoint that may count."""
        disk.cut(self, self._min_disk_size)

    def sync_whole(self) -> None:
        """Cut the file on the disk to its size, and sync it."""
        disk.cut(self, self.size)
        disk.sync_file(self)

    def checksum_of(self, start: int, end: int, should_stop: Stop = never) -> int:
        """Return the checksum of bytes on the disk, from the start of a page on.

        `should_stop` may end it with a `StoppedError`.
        """
        checksum = 0
        first_page = start // PAGE_BYTES
        for content in self._read_all(start, end, should_stop):
            next_page = first_page + rounded_up(len(content)) // PAGE_BYTES
            checksum += checksum_of_pages(content, range(first_page, next_page))
            first_page = next_page
        return checksum % 2**64

    def old_checksum(self, size: int, should_stop: Stop = never) -> int:
        """Return the checksum of the file in logs without a `page_checksum`."""
        contents = self._read_all(0, size, should_stop)
        return sum(map(old_checksum_of_pages, contents)) % 2**64

    def _write(self, view: memoryview) -> None:
        start = self._position
        n_held = max(0, min(len(view), self._held_end - start))
        for span in page_spans(start, start + n_held):
            # HDF5 writes all names of a group for each new name: most pages do not
            # change.
            page = self._page(span.page_index)
            if page[span.in_page] != view[span.in_range]:
                page[span.in_page] = view[span.in_range]
                self.changed[span.page_index] = page
        position = start + n_held
        rest = view[n_held:]
        while rest:
            n_written = disk.write_at(self, position, rest)
            position += n_written
            rest = rest[n_written:]

    def _read_all(self, start: int, end: int, should_stop: Stop) -> Iterator[bytes]:
        """Yield bytes on the disk in pieces of whole pages."""
        for position in range(start, end, CHECKED_BYTES):
            is_turn = position % (_READS_PER_STOP * CHECKED_BYTES) == 0
            if is_turn and position > start and should_stop():
                raise StoppedError(f"Stopped while {self.path} was checked")
            yield self._read_at(position, min(CHECKED_BYTES, end - position))

    def _read_at(self, position: int, n_bytes: int) -> bytes:
        super().seek(position)
        return super().read(n_bytes)

    def _page(self, index: int) -> bytearray:
        """Return the current content of a page before `_held_end`: (PAGE_BYTES,)."""
        if index in self.changed:
            return self.changed[index]
        return bytearray(self._page_on_disk(index))

    def _page_on_disk(self, index: int) -> bytes:
        """Return the content of a page on the disk: (PAGE_BYTES,)."""
        content = self._read_at(index * PAGE_BYTES, PAGE_BYTES)
        return content.ljust(PAGE_BYTES, b"\0")

    def _attempt(self, act: Callable[[], object]) -> None:
        """Call a function unless there was an error, and store its error."""
        if self.error is None:
            try:
                act()
            except BaseException as error:  # It may be Ctrl-C.
                self.error = error
