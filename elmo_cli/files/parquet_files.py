"""Files of Parquet in which damage is found.

Pages have checksums, as the format defines. The footer has none: it says where the
pages are, and what is in them. So its CRC-32 is in its metadata, computed with zeros in
its own place.
"""

import re
import zlib
from pathlib import Path
from typing import IO, Any, Final

from elmo_cli.errors.optional_imports import load_pyarrow
from elmo_cli.errors.wording import first_line
from elmo_cli.files.named_pipes import refuse_named_pipe

FOOTER_CRC32: Final = "footer_crc32"
"""Key in the metadata of a footer: its checksum, in 8 hexadecimal digits."""
NO_CRC32: Final = "00000000"
"""Value of `FOOTER_CRC32` while the checksum is computed."""
_CRC32_IN_FOOTER: Final = re.compile(
    re.escape(FOOTER_CRC32.encode()) + rb"\x18\x08(.{8})", re.DOTALL
)
"""Key and value as Thrift writes them: the type of the value and its length between."""
_NO_FOOTER: Final = "magic bytes not found"
"""Part of pyarrow's error for a file without its end, where the footer is."""
_LENGTH_BYTES: Final = 4
PARQUET_MAGIC: Final = b"PAR1"
_END_BYTES: Final = _LENGTH_BYTES + len(PARQUET_MAGIC)
_TAIL_BYTES: Final = 1 << 16
"""Number of bytes that are read at first: nearly all footers are smaller."""
_METADATA_BYTES: Final = (1 << 31) - 1
"""Maximum size of metadata that is read; pyarrow's own limit is smaller."""


class SealedFile:
    """File object for pyarrow, which writes the checksum of the footer at the end.

    The footer's metadata must hold `FOOTER_CRC32` with `NO_CRC32`.
    """

    closed = False  # as pyarrow asks

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._footer: bytearray | None = None

    def write(self, data: bytes) -> int:
        """Write bytes, or hold them if they belong to the footer."""
        if self._footer is None:
            self._file.write(data)
        else:
            self._footer += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: the owner of the file flushes it."""

    def begin_footer(self) -> None:
        """Hold all bytes from now on."""
        self._footer = bytearray()

    def write_footer(self) -> None:
        """Write the bytes that were held, with the checksum of the footer."""
        assert self._footer is not None
        self._file.write(sealed(bytes(self._footer)))


def sealed(content: bytes) -> bytes:
    """Return a file, or the end of one, with the checksum of its footer."""
    footer = _footer_of(content)
    place = _CRC32_IN_FOOTER.search(footer)
    assert place is not None
    assert place[1] == NO_CRC32.encode()
    start = len(content) - _END_BYTES - len(footer) + place.start(1)
    checksum = _checksum_text(footer)
    return content[:start] + checksum + content[start + len(checksum) :]


def has_checksums(metadata: Any) -> bool:
    """Return whether a file has checksums. Earlier versions wrote none."""
    return FOOTER_CRC32.encode() in (metadata.metadata or {})


def open_parquet(path: str | Path, file_system: Any = None) -> Any:
    """Open a file as `pyarrow.parquet.ParquetFile`, which checks what it reads.

    Raises:
        pyarrow.ArrowInvalid: The footer is damaged, or the file is not Parquet.
    """
    from pyarrow import parquet

    return parquet.ParquetFile(
        path,
        metadata=read_metadata(path, file_system),
        filesystem=file_system,
        page_checksum_verification=True,
        thrift_string_size_limit=_METADATA_BYTES,
    )


def read_metadata(path: str | Path, file_system: Any = None) -> Any:
    """Read the metadata of a file as `pyarrow.parquet.FileMetaData`.

    Raises:
        pyarrow.ArrowInvalid: The footer is damaged, or the file is not Parquet.
    """
    pyarrow = load_pyarrow()
    from pyarrow import parquet
    from pyarrow.fs import LocalFileSystem

    file_system = file_system or LocalFileSystem()
    if isinstance(file_system, LocalFileSystem):
        refuse_named_pipe(path)
    with file_system.open_input_file(str(path)) as file:
        n_bytes = file.size()
        n_read = min(n_bytes, _TAIL_BYTES)
        tail = file.read_at(n_read, n_bytes - n_read)
        n_needed = _END_BYTES + _footer_length(tail)
        if n_read < n_needed <= n_bytes:
            tail = file.read_at(n_needed, n_bytes - n_needed)
    footer = _footer_of(tail)
    place = _CRC32_IN_FOOTER.search(footer)
    if place is not None:
        before = footer[: place.start(1)]
        after = footer[place.end() :]
        cleared = before + NO_CRC32.encode() + after
        if place[1] != _checksum_text(cleared):
            raise pyarrow.ArrowInvalid("the checksum of its footer is wrong")
    # Without the pages before it, the footer is a file too.
    buffer = pyarrow.BufferReader(PARQUET_MAGIC + tail)
    file = parquet.ParquetFile(buffer, thrift_string_size_limit=_METADATA_BYTES)
    return file.metadata


def _footer_length(tail: bytes) -> int:
    return int.from_bytes(tail[-_END_BYTES : -len(PARQUET_MAGIC)], "little")


def _footer_of(tail: bytes) -> bytes:
    """Return the footer in the last bytes of a file, or less if they hold less."""
    start = max(0, len(tail) - _END_BYTES - _footer_length(tail))
    return tail[start:-_END_BYTES]


def _checksum_text(footer: bytes) -> bytes:
    return b"%08x" % zlib.crc32(footer)


def unreadable_reason(error: Exception) -> str:
    """Return why pyarrow cannot read a file."""
    reason = first_line(error)
    if _NO_FOOTER in reason:
        return "it is incomplete, or not Parquet"
    return reason
