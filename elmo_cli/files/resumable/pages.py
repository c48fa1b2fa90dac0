"""Pages, the units in which changes of a file are held and its checksum is computed.

The checksum of a file is a sum over its pages, so that a checkpoint reads only the new
and the changed ones. The value of a page is computed in two steps:

1. Its words of 32 bits are multiplied by odd numbers of 64 bits, and added up. Any two
   flipped bits in a page change this sum, because no two of the changes that a bit can
   make are equal: a test compares all of them.
2. The sum is multiplied by a number that depends on the page's index, and its bits are
   mixed. Damage to several pages, such as two that changed places, is then only missed
   by a chance of one in 2**64.

A page of zeros counts as zero.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAGE_BYTES: Final = 4096
_WORD_BYTES: Final = 4
_OLD_WORD_BYTES: Final = 8
_OLD_WEIGHTS: Final = np.arange(
    1, 2 * PAGE_BYTES // _OLD_WORD_BYTES, 2, dtype=np.uint64
)
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


def checksum_of_pages(content: bytes, page_indices: Sequence[int]) -> int:
    """Return the sum of the values of pages, below 2**64.

    The last page may be shorter, as if zeros followed.
    """
    factors = 2 * np.asarray(page_indices, np.uint64) + 1
    values = _mixed_bits(sums_of_words(content) * factors)
    return int(values.sum())


def sums_of_words(content: bytes) -> NDArray[np.uint64]:
    """Return the sum of the weighted words of each page: (n_pages,).

    The last page may be shorter, as if zeros followed.
    """
    padded = content.ljust(rounded_up(len(content)), b"\0")
    words = np.frombuffer(padded, "<u4").reshape(-1, len(_WEIGHTS))
    sums: NDArray[np.uint64] = np.einsum("ij,j->i", words, _WEIGHTS)
    return sums


def old_checksum_of_pages(content: bytes) -> int:
    """Return the checksum of pages in logs without a `page_checksum`, below 2**64.

    Some damage does not change it, such as pages that changed places.
    """
    padded = content.ljust(rounded_up(len(content)), b"\0")
    words = np.frombuffer(padded, "<u8").reshape(-1, len(_OLD_WEIGHTS))
    return int((words.sum(axis=0) * _OLD_WEIGHTS).sum())


def _mixed_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return values of which every bit depends on all bits: zero for zero.

    These are the steps of the random numbers called SplitMix64.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_WEIGHTS: Final = _mixed_bits(
    np.arange(1, 1 + PAGE_BYTES // _WORD_BYTES, dtype=np.uint64)
) | np.uint64(1)
"""Odd numbers, one per word of a page."""
