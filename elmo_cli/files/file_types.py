"""Types of files by their first bytes: compressed data, which is read, and data that is no text."""

from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.compression import COMPRESSIONS, compression_of

_ICONV: Final = "Convert it with `iconv -f {} -t utf-8`."


AS_TEXT: Final = "Write its text into a file with one sentence per line."


PANDOC: Final = (
    "Convert it, for example with `pandoc FILE -t plain --wrap=none -o FILE.txt`."
)


_UNPACK: Final = "Unpack it and name a file in it."


_SOFFICE: Final = 'Convert it with `soffice --convert-to "{}" FILE`.'


_OFFICE: Final = ("an Office document", _SOFFICE.format("txt:Text (encoded):UTF8"))


_TO_CSV: Final = (
    f"{_SOFFICE.format('csv:Text - txt - csv (StarCalc):44,34,76')} Or save it as CSV."
)


_IN_ZIPS: Final = {
    b"xl/w": ("a spreadsheet", _TO_CSV),
    b"opendocument.spreadsheet": ("a spreadsheet", _TO_CSV),
    b"[Content_Types].xml": _OFFICE,
    b"mimetypeapplication/vnd.oasis": _OFFICE,
    b"mimetypeapplication/epub": ("an EPUB book", PANDOC),
}
"""Bytes at the beginning of some zip files, with their type and advice, the specific ones first."""


_MAGICS: Final = (
    ((b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-32", _ICONV.format("utf-32")),
    ((b"\xff\xfe", b"\xfe\xff"), "UTF-16", _ICONV.format("utf-16")),
    (
        b"PAR1\x15",
        "Parquet",
        "Use --input-format parquet, and name a file: it cannot be piped.",
    ),
    (
        b"PK\x03\x04",
        "a zip file",
        "Unpack it, for example with `unzip -p FILE | elmo ... -`.",
    ),
    (b"PK\x05\x06", "an empty zip file", "Choose another file."),
    (b"%PDF-", "PDF", "Convert it, for example with `pdftotext FILE`."),
    (b"\x89HDF\r\n", "HDF5", AS_TEXT),
    (b"\x93NUMPY", "a NumPy array", AS_TEXT),
    (
        b"ARROW1\0\0",
        "Arrow",
        "In pyarrow: `parquet.write_table(feather.read_table(FILE), NEW)`.",
    ),
    (
        b"\xd0\xcf\x11\xe0",
        _OFFICE[0],
        f"{_OFFICE[1]} If it is a spreadsheet: {_TO_CSV}",
    ),
    (b"{\\rtf", "RTF", PANDOC),
    (
        b"SQLite format 3\0",
        "SQLite",
        "Use `sqlite3 -header -csv FILE 'SELECT ...' > FILE.csv`.",
    ),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    ((b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"), "a pickle", AS_TEXT),
)
"""First bytes, type and advice. The more specific type comes first. LF ends the bytes."""


def binary_type(content: bytes) -> tuple[str, str] | None:
    """Return the type of data that is no UTF-8 text by its first bytes, and the advice for it."""
    if compression := compression_of(content):
        program = COMPRESSIONS[compression][1]
        return f"{compression} data", f"Pipe in `{program} FILE`, or name the file."
    if content[257:262] == b"ustar":
        return (
            "a tar archive",
            "Unpack it, for example with `tar -xOf FILE | elmo ... -`.",
        )
    in_zip = _IN_ZIPS.items() if content.startswith(b"PK\x03\x04") else ()
    found = [kind for part, kind in in_zip if part in content]
    found += [
        (name, advice) for magic, name, advice in _MAGICS if content.startswith(magic)
    ]
    return found[0] if found else _unmarked_utf(content)


def _unmarked_utf(content: bytes) -> tuple[str, str] | None:
    """Recognize UTF-32 and UTF-16 without a byte order mark by the zero bytes of Latin letters."""
    for encoding, n_bytes, zeros in (
        ("utf-32le", 4, content[1::2] + content[2::4]),
        ("utf-32be", 4, content[::2] + content[1::4]),
        ("utf-16be", 2, content[::2]),
        ("utf-16le", 2, content[1::2]),
    ):
        if len(content) >= n_bytes and not any(zeros):
            return encoding[:6].upper(), _ICONV.format(encoding)
    return None


def binary_error(name: str, content: bytes) -> InputError | None:
    """Return the error for a file that is no text by its first bytes, or None."""
    if file_type := binary_type(content):
        return InputError(f"{name}: {file_type[0]}, not UTF-8 text. {file_type[1]}")
    return None
