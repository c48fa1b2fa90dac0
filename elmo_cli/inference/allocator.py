"""Memory that is freed: kept by the C library, to be used again for the next product."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # the names of glibc's malloc.h
MAPPED_BYTES = 17 << 20
"""What takes more is mapped by itself and goes back when it is freed. A product of a step takes
16 MiB at most in the original model."""
FREE_BYTES = 48 << 20
"""So much may be free at the end of the heap: three of these products."""


def keep_freed_memory() -> None:
    """Have glibc use memory again that a step has freed, in this process, from now on.

    By itself it gives back all beyond twice the largest piece that was freed, so that products
    get their memory page by page anew, some 2 microseconds each (`docs/performance.md`).
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:  # other C libraries have none
            set_option(_M_MMAP_THRESHOLD, MAPPED_BYTES)
            set_option(_M_TRIM_THRESHOLD, FREE_BYTES)
