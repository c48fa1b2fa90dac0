"""A very long string into an HDF5 file, without holding it in memory.

HDF5 takes a string of variable length whole, and copies it twice. So where it is long,
its dataset is made empty, and the string is added when HDF5 has closed the file, byte
by byte what HDF5 would have written: a global heap collection of one object, at the end
of the file, and a reference to it. See "Global Heap" and "Superblock" in the HDF5 File
Format Specification, version 3.0.
"""

import struct
from typing import IO, Final

import h5py

from elmo_cli.outputs.checkpointed_file import CheckpointedFile

MOST_BYTES: Final = (1 << 32) - 1
"""The length of a string has 4 bytes."""

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_END_OF_FILE: Final = {0: 40, 1: 44}
"""Where superblocks of these versions hold the end of the file."""
_LEAST_COLLECTION: Final = 4096
_BLOCK_BYTES: Final = 1 << 20


def create_empty_string(file: h5py.File, name: str) -> int:
    """Make a dataset of one string, shape (1,), without a value.

    Returns:
        Where the file has the reference to its value.
    """
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    type_id = h5py.h5t.py_create(h5py.string_dtype(encoding="utf-8"), logical=True)
    space = h5py.h5s.create_simple((1,))
    dataset = h5py.h5d.create(file.id, name.encode(), type_id, space, dcpl=properties)
    offset: int = dataset.get_offset()
    return offset


def write_string(sink: CheckpointedFile, reference: int, content: IO[bytes]) -> None:
    """Give the string its value, after HDF5 has closed the file.

    Args:
        sink: the file.
        reference: what `create_empty_string` gave.
        content: UTF-8, at most `MOST_BYTES`, at its end.
    """
    at_end = _superblock_end(sink)
    end = struct.unpack("<Q", _read(sink, at_end, 8))[0]
    start = -(-end // 8) * 8
    length = content.tell()
    used = 16 + 16 + -(-length // 8) * 8
    size = max(used, _LEAST_COLLECTION)
    sink.seek(start)
    sink.write(b"GCOL" + struct.pack("<B3xQ", 1, size))
    sink.write(struct.pack("<HH4xQ", 1, 0, length))  # object 1, which nothing else refers to
    content.seek(0)
    while block := content.read(_BLOCK_BYTES):
        sink.write(block)
    sink.write(bytes(used - 32 - length))
    if size - used >= 16:  # what is free is object 0, with its header
        sink.write(struct.pack("<HH4xQ", 0, 0, size - used) + bytes(size - used - 16))
    else:
        sink.write(bytes(size - used))
    sink.seek(reference)
    sink.write(struct.pack("<IQI", length, start, 1))
    sink.seek(at_end)
    sink.write(struct.pack("<Q", start + size))


def _superblock_end(sink: CheckpointedFile) -> int:
    head = _read(sink, 0, 16)
    # A file of ours: HDF5 writes this superblock unless it is told otherwise.
    assert head[:8] == _SIGNATURE
    assert head[13:15] == b"\x08\x08"  # bytes of an address, and of a length
    return _END_OF_FILE[head[8]]


def _read(sink: CheckpointedFile, position: int, length: int) -> bytes:
    content = bytearray(length)
    sink.seek(position)
    sink.readinto(content)
    return bytes(content)
