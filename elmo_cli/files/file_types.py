"""Types of files by their first bytes: compressed data, and data that is no text."""

import os
import shlex
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.compression import compression_of


class FileType(NamedTuple):
    """Type of data that is not UTF-8 text, with the remedy, if a short one helps."""

    name: str
    remedy: str | None = None
    encoding: str | None = None
    """Name of another encoding of texts, for iconv."""


_UTF_32: Final = FileType("UTF-32", encoding="utf-32")
_UTF_16: Final = FileType("UTF-16", encoding="utf-16")
HDF5_MAGIC: Final = b"\x89HDF\r\n"
_ZIP: Final = b"PK\x03\x04"
_SAVE_AS_TEXT: Final = "Save it as plain text first."
_OFFICE_DOCUMENT: Final = FileType("an Office document", _SAVE_AS_TEXT)
_SPREADSHEET: Final = FileType("a spreadsheet", "Save it as CSV first.")

_IN_ZIPS: Final = {
    b"xl/w": _SPREADSHEET,
    b"opendocument.spreadsheet": _SPREADSHEET,
    b"[Content_Types].xml": _OFFICE_DOCUMENT,
    b"mimetypeapplication/vnd.oasis": _OFFICE_DOCUMENT,
    b"mimetypeapplication/epub": FileType("an EPUB book", _SAVE_AS_TEXT),
}
"""Bytes at the beginning of some zip files, the more specific types first."""
_PARQUET: Final = FileType(
    "Parquet", "Use {--input-format parquet}, and name a file: it cannot be piped."
)
_MAGICS: Final = {
    b"\xff\xfe\0\0": _UTF_32,
    b"\0\0\xfe\xff": _UTF_32,
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"PAR1\x15": _PARQUET,
    _ZIP: FileType("a zip file", "Unpack it first."),
    b"PK\x05\x06": FileType("an empty zip file"),
    b"%PDF-": FileType("PDF", "Extract its text first, for example with `pdftotext`."),
    HDF5_MAGIC: FileType("HDF5"),
    b"\x93NUMPY": FileType("a NumPy array"),
    b"ARROW1\0\0": FileType("Arrow"),
    b"\xd0\xcf\x11\xe0": _OFFICE_DOCUMENT,
    b"{\\rtf": FileType("RTF", _SAVE_AS_TEXT),
    b"SQLite format 3\0": FileType("SQLite"),
    b"7z\xbc\xaf\x27\x1c": FileType("a 7z archive", "Unpack it first."),
    b"Rar!\x1a\x07": FileType("a RAR archive", "Unpack it first."),
    b"\x80\2": FileType("a pickle"),
    b"\x80\3": FileType("a pickle"),
    b"\x80\4": FileType("a pickle"),
    b"\x80\5": FileType("a pickle"),
}
"""First bytes of types. The more specific ones come first. LF ends the bytes."""
_TAR_POSITION: Final = slice(257, 262)
"""Bytes of a tar archive that are `ustar`."""


def binary_type(content: bytes) -> FileType | None:
    """Return the type of data by its first bytes; None if it may be UTF-8 text."""
    compression = compression_of(content)
    if compression is not None:
        program = compression.program
        remedy = f"Pipe in `{program} FILE`, or name the file."
        return FileType(f"{compression.name} data", remedy)
    if content[_TAR_POSITION] == b"ustar":
        return FileType("a tar archive", "Unpack it first.")
    if content.startswith(_ZIP):
        for part, file_type in _IN_ZIPS.items():
            if part in content:
                return file_type
    for magic, file_type in _MAGICS.items():
        if content.startswith(magic):
            return file_type
    return _unmarked_utf(content)


def _unmarked_utf(content: bytes) -> FileType | None:
    """Recognize UTF-32 and UTF-16 without a byte order mark, by their zero bytes.

    A Latin letter has two or four bytes in these encodings, and all but one are zero.
    """
    for name, encoding, n_bytes, zeros in (
        ("UTF-32", "utf-32le", 4, content[1::2] + content[2::4]),  # a 0 0 0
        ("UTF-32", "utf-32be", 4, content[::2] + content[1::4]),  # 0 0 0 a
        ("UTF-16", "utf-16be", 2, content[::2]),  # 0 a
        ("UTF-16", "utf-16le", 2, content[1::2]),  # a 0
    ):
        if len(content) >= n_bytes and not any(zeros):
            return FileType(name, encoding=encoding)
    return None


def binary_error(
    name: str, content: bytes, advice: str | None = None
) -> InputError | None:
    """Return the error for a file that is no text by its first bytes, or None.

    `advice` says what to give in its place. By default, it is the format that reads it.
    """
    file_type = binary_type(content)
    if file_type is None:
        return None
    if file_type.encoding is None:
        remedy = advice or file_type.remedy or "Give a text instead."
        command = ""
    else:
        remedy = "Convert it with {command}."
        command = utf8_command(name, file_type.encoding)
    return InputError(
        "{name}: {file_type}, not UTF-8 text",
        remedy=remedy,
        name=name,
        file_type=file_type.name,
        command=command,
    )


def utf8_command(name: str, encoding: str) -> str:
    """Return the command that converts a text to UTF-8, in backticks."""
    return conversion_command(f"iconv -f {encoding} -t utf-8", name, mark=".utf8")


def conversion_command(
    command: str, name: str, *, mark: str = "", suffix: str | None = None
) -> str:
    """Return the command that converts an input, in backticks.

    A file is converted into another one, whose name has a mark or another suffix. A
    command that reads standard input ends in `<`.
    """
    if not _is_uncompressed_file(name):
        return f"`{command.removesuffix(' <')}`"
    start, own_suffix = os.path.splitext(name)
    converted = f"{start}{mark}{own_suffix if suffix is None else suffix}"
    return f"`{command} {shlex.quote(name)} > {shlex.quote(converted)}`"


def _is_uncompressed_file(name: str) -> bool:
    """Return whether a command can read an input by its name."""
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return compression_of(file.read(16)) is None
