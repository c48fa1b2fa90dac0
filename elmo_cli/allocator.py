"""Memory that is free, but not given back: kept by the C library."""

import ctypes
import sys


def return_free_memory() -> None:
    """Give the system what is free within the C library's heaps: glibc alone keeps that much."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
