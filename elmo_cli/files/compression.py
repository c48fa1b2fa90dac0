"""Compressed inputs: gzip, bzip2, xz and Zstandard."""

import sys
import zlib
from typing import BinaryIO, Final

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.errors.optional_imports import load_extra

_ZSTD: Final = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


COMPRESSIONS: Final = {
    "gzip": (b"\x1f\x8b", "zcat", "gzip"),
    "bzip2": (b"BZh", "bzcat", "bz2"),
    "xz": (b"\xfd7zXZ\0", "xzcat", "lzma"),
    "zstd": (b"\x28\xb5\x2f\xfd", "zstdcat", _ZSTD),
}
"""First bytes of compressed data, the program that decompresses a file, and Python's module."""


_BZIP2_BLOCKS: Final = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes 4 to 9 of bzip2: the first block, or the end of an empty file. Text may begin with BZh."""


_MAGIC_BYTES: Final = 10


def compression_of(content: bytes) -> str | None:
    """Return the compression of data by its first bytes, or None if it is not compressed."""
    name = next(
        (n for n, (magic, *_) in COMPRESSIONS.items() if content.startswith(magic)),
        None,
    )
    return (
        None
        if name == "bzip2" and content[4:_MAGIC_BYTES] not in _BZIP2_BLOCKS
        else name
    )


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return an open file, or a reader that decompresses it; a pipe is returned as it is."""
    compression = compression_of(_peek(file, _MAGIC_BYTES))
    if compression is None:
        return file
    module = load_extra(f"{compression} data", COMPRESSIONS[compression][2], "zstd")
    opened: BinaryIO = module.open(file)
    return opened


def _peek(file: BinaryIO, n_bytes: int) -> bytes:
    """Return the next bytes of a file without reading them; empty for a pipe."""
    content: bytes = file.peek(n_bytes)[:n_bytes] if hasattr(file, "peek") else b""
    if len(content) < n_bytes and file.seekable():
        position = file.tell()
        content = file.read(n_bytes)
        file.seek(position)
    return content


def is_damage(error: Exception) -> bool:
    """Return whether reading failed because of the file. Errors of this package are not damage."""
    # xz and zstd are imported only when needed, so their errors are recognized by name.
    is_named = type(error).__name__ in ("LZMAError", "ZstdError")
    is_known = is_named or isinstance(error, (EOFError, OSError, zlib.error))
    return is_known and not isinstance(error, ElmoError)
