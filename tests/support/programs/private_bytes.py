"""Print the bytes of private memory that `Elmo` takes for a LARGE model.

A SMALL model is used before, with all that the first use of a model takes.
"""

import ctypes
import sys
from pathlib import Path

from elmo_cli import Elmo, batch_to_ids

M_MMAP_THRESHOLD = -3


def private_bytes() -> int:
    """Return the private memory of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


def used(folder: str) -> Elmo:
    """Return the module of a model that has embedded a token."""
    elmo = Elmo(model=folder)
    elmo(batch_to_ids([["a"]]))
    return elmo


# Memory that is freed goes back to the system.
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)
small = used(sys.argv[1])
before = private_bytes()
large = used(sys.argv[2])
print(private_bytes() - before)
