"""Memory that is free, but not given back: kept by the C library or by oneDNN."""

import ctypes
import os
import sys
from typing import Final

PRIMITIVES: Final = 64
"""Compiled matrix products that oneDNN keeps, one for each number of rows and a third of a MB
each. Making one anew takes about half a millisecond, a fiftieth of a large one's time."""


def return_free_memory() -> None:
    """Give the system what is free within the C library's heaps: glibc alone keeps that much."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def keep_few_primitives() -> None:
    """Have oneDNN keep `PRIMITIVES` in place of 1,024, unless the environment says how many.

    For a process that does nothing else: it holds for every use of oneDNN. To be called before
    the first.
    """
    if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:  # its older name
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
