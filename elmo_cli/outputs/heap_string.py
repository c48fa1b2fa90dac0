"""A very long string into an HDF5 file, without holding it in memory.

HDF5 takes a string of variable length whole, and copies it twice. So where it is long,
its dataset is made empty, and the string is added when HDF5 has closed the file, byte
by byte what HDF5 would have written: a global heap collection of one object, at the end
of the file, and a reference to it. See "Global Heap" in the HDF5 File Format Specification,
version 3.0. It is read likewise: HDF5 would give it whole.
"""

import io
import os
import struct
from typing import IO, Any, BinaryIO, Final, TextIO

import h5py

from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.superblock import read_superblock, write_end

MOST_BYTES: Final = (1 << 32) - 1
"""The length of a string has 4 bytes."""

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
    superblock = read_superblock(sink)
    start = superblock.free
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
    write_end(sink, superblock, start + size)


def open_string(dataset: h5py.Dataset) -> TextIO:
    """The value of a dataset of one string, shape (1,), to be read in pieces.

    Of a file in another form than HDF5 has by itself, HDF5 reads it whole.

    Raises:
        ValueError: the file is damaged.
    """
    if not _is_plain(dataset):
        return io.StringIO(dataset[0].decode("utf-8", "surrogatepass"))
    file = open(dataset.file.filename, "rb")  # noqa: SIM115 (whoever reads it closes it)
    try:
        part = _Part(file, *_find_string(file, dataset.id.get_offset()))
    except BaseException:
        file.close()
        raise
    return io.TextIOWrapper(io.BufferedReader(part), "utf-8", "surrogatepass", newline="")


def _is_plain(dataset: h5py.Dataset) -> bool:
    """Whether the file has the reference to the string at one place, in the form known here."""
    text = h5py.check_string_dtype(dataset.dtype)
    if dataset.shape != (1,) or text is None or text.length is not None:
        return False
    made, file_made = dataset.id.get_create_plist(), dataset.file.id.get_create_plist()
    return (
        made.get_layout() == h5py.h5d.CONTIGUOUS
        and made.get_external_count() == 0
        and file_made.get_sizes() == (8, 8)
        and file_made.get_userblock() == 0
        and dataset.file.driver == "sec2"
        and dataset.id.get_offset() is not None
    )


def _find_string(file: BinaryIO, reference: int) -> tuple[int, int]:
    """Where a string starts, and its length in bytes."""
    length, collection, number = _unpack(file, reference, "<IQI")
    if not length:
        return 0, 0
    signature, _version, size = _unpack(file, collection, "<4sB3xQ")
    size_of_file = os.fstat(file.fileno()).st_size
    place = collection + 16
    while signature == b"GCOL" and place < min(collection + size, size_of_file):
        found, _references, used = _unpack(file, place, "<HH4xQ")
        if found == number and length <= used and place + 16 + length <= size_of_file:
            return place + 16, length
        if found in (0, number):
            break
        place += 16 + -(-used // 8) * 8
    raise ValueError("a reference to a string that is not there")


def _unpack(file: BinaryIO, place: int, form: str) -> tuple[Any, ...]:
    length = struct.calcsize(form)
    file.seek(min(place, os.fstat(file.fileno()).st_size))  # beyond it, zeros
    return struct.unpack(form, file.read(length).ljust(length, b"\0"))


class _Part(io.RawIOBase):
    """Some bytes of a file, which it closes with itself."""

    def __init__(self, file: BinaryIO, start: int, length: int) -> None:
        super().__init__()
        self._file, self._left = file, length
        file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        content = self._file.read(min(len(buffer), self._left))
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
