"""What the attributes of an HDF5 object claim to hold, before HDF5 believes it.

HDF5 takes as much memory as a string of variable length claims, up to 4 GiB, before it
looks for the string. So its claim is read here, from the header of the object: see
"Data Object Headers", "Attribute Message" and "Object Header Continuation Message" in
the HDF5 File Format Specification, version 3.0. Headers of version 1 only, which HDF5
writes unless it is told otherwise.
"""

import os
import struct
from collections.abc import Iterator
from typing import IO, Final

import h5py

_ATTRIBUTE: Final = 0x000C
_CONTINUATION: Final = 0x0010
_VARIABLE_LENGTH: Final = 9
"""The class of a datatype."""
_REFERENCE_BYTES: Final = 16
"""Of a string of variable length: 4 for its length, then where it is."""
_PREFIX_BYTES: Final = 16
_MOST_BLOCKS: Final = 1000
_LONGEST_BLOCK: Final = 1 << 24


def check_attributes(item: h5py.HLObject) -> None:
    """Make sure that no attribute of an object claims to be longer than its file.

    Raises:
        ValueError: one does, or the header is damaged.
    """
    with open(item.file.filename, "rb") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        try:
            claims = _claims(file, item.file.userblock_size, h5py.h5o.get_info(item.id).addr)
            longest = max(claims, default=0)
        except (struct.error, IndexError):
            raise ValueError("an object header that is cut off") from None
    if longest > n_bytes:
        raise ValueError(f"an attribute that is longer than the file of {n_bytes:,} bytes")


def _claims(file: IO[bytes], base: int, address: int) -> Iterator[int]:
    """The lengths that the strings of all attributes of an object claim.

    Args:
        file: with the object.
        base: where its addresses count from.
        address: of the header of the object.
    """
    file.seek(base + address)
    version, length = struct.unpack("<B7xI4x", file.read(_PREFIX_BYTES))
    blocks = [(address + _PREFIX_BYTES, length)] if version == 1 else []
    for number, (start, length) in enumerate(blocks):
        if number > _MOST_BLOCKS or length > _LONGEST_BLOCK:
            raise ValueError("an object header that does not end")
        file.seek(base + start)
        for kind, content in _messages(file.read(length)):
            if kind == _CONTINUATION:
                blocks.append(struct.unpack_from("<QQ", content))
            elif kind == _ATTRIBUTE:
                yield from _attribute_claims(content)


def _messages(block: bytes) -> list[tuple[int, bytes]]:
    """The kind and the content of each message."""
    found, start = [], 0
    while start + 8 <= len(block):
        kind, length = struct.unpack_from("<HH", block, start)
        found.append((kind, block[start + 8 : start + 8 + length]))
        start += 8 + length
    return found


def _attribute_claims(content: bytes) -> list[int]:
    """The lengths that the strings of an attribute claim; nothing for other types."""
    version, *sizes = struct.unpack_from("<BxHHH", content)
    start = 9 if version == 3 else 8  # an encoding of the name
    if version == 1:
        sizes = [-(-size // 8) * 8 for size in sizes]
    name, kind, space = sizes
    if content[start + name] & 0x0F != _VARIABLE_LENGTH:
        return []
    values = content[start + name + kind + space :]
    return [
        int.from_bytes(values[at : at + 4], "little")
        for at in range(0, len(values) - _REFERENCE_BYTES + 1, _REFERENCE_BYTES)
    ]
