"""Compressed inputs: gzip, bzip2, xz and Zstandard."""

import sys
import zlib
from typing import BinaryIO, Final, NamedTuple

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.errors.optional_imports import load_extra


class InputCompression(NamedTuple):
    """Compression of a file that is read."""

    name: str
    magic: bytes
    """First bytes of the data."""
    program: str
    """Program that decompresses a file to standard output."""
    module: str
    """Module of Python that opens a file."""


_ZSTD_MODULE: Final = (
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
)
COMPRESSIONS: Final = (
    InputCompression("gzip", b"\x1f\x8b", "zcat", "gzip"),
    InputCompression("bzip2", b"BZh", "bzcat", "bz2"),
    InputCompression("xz", b"\xfd7zXZ\0", "xzcat", "lzma"),
    InputCompression("zstd", b"\x28\xb5\x2f\xfd", "zstdcat", _ZSTD_MODULE),
)

_BZIP2_BLOCKS: Final = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes 4 to 9 of bzip2: the first block, or the end of an empty file."""
_MAGIC_BYTES: Final = 10
"""Number of bytes that show the compression."""


def compression_of(content: bytes) -> InputCompression | None:
    """Return the compression of data by its first bytes, or None."""
    for compression in COMPRESSIONS:
        if content.startswith(compression.magic):
            # Text may begin with BZh.
            is_text = content[4:_MAGIC_BYTES] not in _BZIP2_BLOCKS
            if compression.name == "bzip2" and is_text:
                return None
            return compression
    return None


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return an open file, or a reader that decompresses it.

    A pipe is returned as it is.
    """
    compression = compression_of(_peek(file, _MAGIC_BYTES))
    if compression is None:
        return file
    module = load_extra(f"{compression.name} data", compression.module, "zstd")
    opened: BinaryIO = module.open(file)
    return opened


def _peek(file: BinaryIO, n_bytes: int) -> bytes:
    """Return the next bytes of a file without reading them; empty for a pipe."""
    content = b""
    if hasattr(file, "peek"):
        content = file.peek(n_bytes)[:n_bytes]
    if len(content) < n_bytes and file.seekable():
        position = file.tell()
        content = file.read(n_bytes)
        file.seek(position)
    return content


def is_damage(error: Exception) -> bool:
    """Return whether reading failed because the file is damaged."""
    # Errors of this package are subclasses of those of Python, but not damage.
    if isinstance(error, ElmoError):
        return False
    if isinstance(error, (EOFError, OSError, zlib.error)):
        return True
    # xz and zstd are imported only when needed, so their errors are known by name.
    return type(error).__name__ in ("LZMAError", "ZstdError")
