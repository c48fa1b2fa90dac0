"""Compressed files: gzip, bzip2, xz and zstd, recognized by their first bytes."""

import gzip
import sys
import zlib
from typing import Any, BinaryIO, Final

from elmo_cli.errors import ElmoError, load_extra

COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes that may follow the suffix of a format."""

_MAGICS: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_BZIP2_BLOCKS: Final = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes 4 to 9 of bzip2: the first block, or the end of an empty file. Text may begin with BZh."""
_MAGIC_BYTES: Final = 10
DECOMPRESSORS: Final = {"gzip": "zcat", "bzip2": "bzcat", "xz": "xzcat", "zstd": "zstdcat"}
"""Programs that decompress a file to standard output."""


def compression_of(content: bytes) -> str | None:
    """Return the compression of a file by its first bytes, or None if it is not compressed."""
    compression = next((name for magic, name in _MAGICS.items() if content.startswith(magic)), None)
    if compression == "bzip2" and content[4:_MAGIC_BYTES] not in _BZIP2_BLOCKS:
        return None
    return compression


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return an open file, or a reader that decompresses it.

    A file that can neither peek nor seek, such as a pipe, is returned as it is.
    """
    compression = compression_of(peek(file, _MAGIC_BYTES))
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if compression == "bzip2":
        import bz2

        return bz2.BZ2File(file)  # type: ignore[return-value]
    if compression == "xz":
        import lzma

        return lzma.LZMAFile(file)  # type: ignore[return-value]
    if compression == "zstd":
        opened: BinaryIO = _load_zstd().ZstdFile(file)
        return opened
    return file


def peek(file: BinaryIO, n_bytes: int) -> bytes:
    """Return the next bytes of a file without reading them; empty for a pipe."""
    content: bytes = b""
    if hasattr(file, "peek"):
        content = file.peek(n_bytes)[:n_bytes]
        if len(content) == n_bytes:
            return content
    if file.seekable():
        position = file.tell()
        content = file.read(n_bytes)
        file.seek(position)
    return content


def _load_zstd() -> Any:
    """Import the module for zstd: of Python itself since 3.14, else the backport."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return load_extra("zstd data", name, "zstd")


def is_damage(error: Exception) -> bool:
    """Return whether reading failed because of the file. Errors of this package are not damage."""
    if isinstance(error, ElmoError):
        return False
    # xz and zstd are imported only when needed, so their errors are recognized by name.
    is_named = type(error).__name__ in ("LZMAError", "ZstdError")
    return is_named or isinstance(error, (EOFError, OSError, zlib.error))
