"""Types of files by their first bytes: compressed data, and data that is no text.

Compressed files are read: gzip, bzip2, xz and zstd. Data of another type is an error with advice.
"""

import gzip
import sys
import zlib
from pathlib import PurePath
from typing import Any, BinaryIO, Final

from elmo_cli.errors import ElmoError, load_extra

COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes that may follow the suffix of a format."""

_COMPRESSION_MAGICS: Final = {
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
    compression = next(
        (name for magic, name in _COMPRESSION_MAGICS.items() if content.startswith(magic)), None
    )
    if compression == "bzip2" and content[4:_MAGIC_BYTES] not in _BZIP2_BLOCKS:
        return None
    return compression


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return an open file, or a reader that decompresses it.

    A file that can neither peek nor seek, such as a pipe, is returned as it is.
    """
    compression = compression_of(_peek(file, _MAGIC_BYTES))
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


def _peek(file: BinaryIO, n_bytes: int) -> bytes:
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


_ICONV: Final = "Convert it with `iconv -f {} -t utf-8`."
_AS_TEXT: Final = "Write its text into a file with one sentence per line."
_UNPACK: Final = "Unpack it and name a file in it."
_OFFICE: Final = ("an Office document", "Convert it with `soffice --convert-to txt FILE`.")
_IN_OFFICE_ZIPS: Final = (b"[Content_Types].xml", b"mimetypeapplication/vnd.oasis")
_EPUB: Final = ("an EPUB book", "Convert it with `pandoc FILE -t plain --wrap=none -o FILE.txt`.")
_MAGICS: Final = (
    (b"\xff\xfe\0\0", "UTF-32", _ICONV.format("utf-32")),
    (b"\0\0\xfe\xff", "UTF-32", _ICONV.format("utf-32")),
    (b"\xff\xfe", "UTF-16", _ICONV.format("utf-16")),
    (b"\xfe\xff", "UTF-16", _ICONV.format("utf-16")),
    (b"PAR1\x15", "Parquet", "Use --input-format parquet, and name a file: it cannot be piped."),
    (b"PK\x03\x04", "a zip file", "Unpack it, for example with `unzip -p FILE | elmo ... -`."),
    (b"PK\x05\x06", "an empty zip file", _UNPACK),
    (b"%PDF-", "PDF", "Convert it, for example with `pdftotext FILE`."),
    (b"\x89HDF\r\n", "HDF5", _AS_TEXT),
    (b"\x93NUMPY", "a NumPy array", _AS_TEXT),
    (b"ARROW1\0\0", "Arrow", "Convert it with pyarrow: pyarrow.parquet.write_table(...)."),
    (b"\xd0\xcf\x11\xe0", *_OFFICE),
    (b"{\\rtf", "RTF", "Convert it, for example with `pandoc FILE -t plain -o FILE.txt`."),
    (b"SQLite format 3\0", "SQLite", "Export a table with `sqlite3 -csv FILE 'SELECT ...'`."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    *((bytes([0x80, protocol]), "a pickle", _AS_TEXT) for protocol in (2, 3, 4, 5)),
)
"""First bytes, type and advice. The more specific type comes first. LF ends the bytes."""
_TAR_OFFSET: Final = 257
HEAD_BYTES: Final = 4096
"""Number of bytes at the beginning of a file that show its type."""

_PANDOC: Final = "Convert it, for example with `pandoc FILE -t plain --wrap=none -o FILE.txt`."
_COLUMN: Final = """`awk 'NF {printf "%s ", $1; next} {print ""}' FILE > FILE.txt`"""
TO_ONE_SENTENCE_PER_LINE: Final = (
    f"write one sentence per line: {_COLUMN} takes the words in column 1."
)
_CONLL: Final = (
    "If its columns 1 and 2 are those of CoNLL-U (ID and FORM), use --input-format conllu. "
    f"Otherwise {TO_ONE_SENTENCE_PER_LINE}"
)
_FASTQ: Final = """`awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' FILE > FILE.fasta`"""
_SUFFIXES: Final = {
    ".conll": ("CoNLL other than CoNLL-U", _CONLL),
    ".iob": ("CoNLL other than CoNLL-U", _CONLL),
    ".bio": ("CoNLL other than CoNLL-U", _CONLL),
    ".fastq": ("FASTQ", f"Convert it to FASTA with {_FASTQ}."),
    ".fq": ("FASTQ", f"Convert it to FASTA with {_FASTQ}."),
    ".xml": ("XML", _AS_TEXT),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("HTML", _PANDOC)),
}


def binary_type(content: bytes) -> tuple[str, str] | None:
    """Return the type of data that is no UTF-8 text by its first bytes, and the advice for it."""
    if compression := compression_of(content):
        return (
            f"{compression} data",
            f"Pipe in `{DECOMPRESSORS[compression]} FILE`, or name the file.",
        )
    if content[_TAR_OFFSET : _TAR_OFFSET + 5] == b"ustar":
        return "a tar archive", "Unpack it, for example with `tar -xOf FILE | elmo ... -`."
    if content.startswith(b"PK\x03\x04"):
        if any(name in content for name in _IN_OFFICE_ZIPS):
            return _OFFICE
        if b"mimetypeapplication/epub" in content:
            return _EPUB
    for magic, name, advice in _MAGICS:
        if content.startswith(magic):
            return name, advice
    return _unmarked_utf(content)


def _unmarked_utf(content: bytes) -> tuple[str, str] | None:
    """Recognize UTF-32 and UTF-16 without a byte order mark by the zero bytes of Latin letters."""
    if len(content) < 2 or (any(content[::2]) and any(content[1::2])):
        return None
    if len(content) >= 4 and not any(content[1::2]) and not any(content[2::4]):
        return "UTF-32", _ICONV.format("utf-32le")
    if len(content) >= 4 and not any(content[::2]) and not any(content[1::4]):
        return "UTF-32", _ICONV.format("utf-32be")
    order = "le" if any(content[::2]) else "be"
    return "UTF-16", _ICONV.format(f"utf-16{order}")


def unread_suffix(path: str) -> tuple[str, str] | None:
    """Return the type of a file that is not read by its suffix, and the advice for it."""
    return _SUFFIXES.get(PurePath(without_compression(path)).suffix.lower())


def without_compression(path: str) -> str:
    """Return a path in lower case without the suffix of a compression."""
    path = path.lower()
    for suffix in COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    return path
