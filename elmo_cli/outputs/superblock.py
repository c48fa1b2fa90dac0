"""The first bytes of an HDF5 file, for what is written when HDF5 has closed it.

See "Superblock" and "Symbol Table Entry" in the HDF5 File Format Specification, version 3.0.
"""

import struct
from typing import Final, NamedTuple

from elmo_cli.outputs.checkpointed_file import CheckpointedFile

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_AT_END: Final = {0: 40, 1: 44}
"""By its version."""
_TABLE_IS_KNOWN: Final = 1
_MOST_BYTES: Final = 100


class Superblock(NamedTuple):
    """What is known of a file."""

    at_end: int
    """Where it has the position of its end, 8 bytes."""
    end: int
    """What it has there."""
    n_leaf: int
    """Half of the names that a node of symbols has room for."""
    n_internal: int
    """Half of the children of a node of a B-tree of names."""
    tree: int
    """Where the B-tree of the names of the root group starts."""
    heap: int
    """Where the header of its names starts."""

    @property
    def free(self) -> int:
        """Where something new can start: behind the end, at a multiple of 8."""
        return -(-self.end // 8) * 8


def read_superblock(sink: CheckpointedFile) -> Superblock:
    """Read it.

    Args:
        sink: a file that HDF5 has closed.

    Raises:
        ValueError: it is of another form than HDF5 writes unless it is told otherwise.
    """
    head = bytearray(_MOST_BYTES)
    sink.seek(0)
    if sink.readinto(head) < _MOST_BYTES or head[:8] != _SIGNATURE or head[8] not in _AT_END:
        raise ValueError("a superblock of another kind")
    sizes = head[13:15]  # of an address, and of a length
    at_end = _AT_END[head[8]]
    # The end, a driver, and the entry of the root: its name, its header, and its table.
    end, known, tree, heap = struct.unpack_from("<Q8x16xI4xQQ", head, at_end)
    if sizes != b"\x08\x08" or known != _TABLE_IS_KNOWN:
        raise ValueError("a superblock of another kind")
    n_leaf, n_internal = struct.unpack_from("<HH", head, 16)
    return Superblock(at_end, end, n_leaf, n_internal, tree, heap)


def write_end(sink: CheckpointedFile, superblock: Superblock, end: int) -> None:
    """Move the end of the file."""
    sink.seek(superblock.at_end)
    sink.write(struct.pack("<Q", end))
