"""Lines of a text file: from bytes to text.

A file is plain or compressed, a pipe or standard input. Its encoding is UTF-8. A line ends in LF
or CRLF. A file without any LF at its beginning has lines that end in CR.

Compressed files: gzip, bzip2, xz and zstd, recognized by their first bytes.

Types of files that are not read as text: how they are recognized, and what to do with them.

Pipes and standard input: lines as they arrive.
"""

import errno
import gzip
import io
import json
import logging
import os
import re
import select
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO, Final

from elmo_cli.errors import (
    ElmoError,
    InputError,
    MissingInputError,
    StoppedError,
    first_line,
    load_extra,
    missing_if,
)
from elmo_cli.text.records import kind_of

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


def text_type(content: bytes) -> str | None:
    """Return the input format of a text by its first lines, or None for plain text.

    Only beginnings that are unlikely in plain text are recognized.
    """
    if content.startswith(b"PAR1\x15"):
        return "parquet"
    text = content.decode("utf-8-sig", "replace")
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    if not lines:
        return None
    if begins_fasta(lines[0]) and len(lines) > 1 and re.fullmatch(r"[A-Za-z*-]+", lines[1]):
        return "fasta"
    if re.match(r"\[\s*\{\s*\"", text.lstrip()):
        return "json"
    if lines[0].startswith('{"') and _has_text_field(lines[0]):
        return "jsonl"
    first = next((line for line in lines if not line.startswith("#")), "")
    return "conllu" if re.match(r"1(-\d+)?\t[^\t]+(\t[^\t]*){7}", first) else None


def begins_fasta(line: str) -> bool:
    """Return whether a line may be the header of a sequence in FASTA."""
    return re.match(r">[^\s>]", line) is not None


def _has_text_field(line: str) -> bool:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # A long line is cut off, so it is no valid JSON.
        return re.match(r'\{"(text|tokens|id)":', line) is not None
    return isinstance(row, dict) and ("text" in row or "tokens" in row)


logger = logging.getLogger(__name__)

STANDARD_INPUT: Final = "-"

_POLL_SECONDS: Final = 0.1
"""Interval at which a waiting reader calls `should_stop`."""
_PATIENCE_SECONDS: Final = 0.02
"""Time that `Pipe.has_line` waits before it returns False, so that a fast writer fills batches."""
_PIPE_BYTES: Final = 1 << 16


class Pipe(io.FileIO):
    """Reader for the lines of a pipe, terminal or socket, blocking or not, as they arrive."""

    def __init__(
        self, descriptor: int, should_stop: Callable[[], bool], *, closefd: bool = True
    ) -> None:
        """Read from a descriptor. Call `should_stop` repeatedly while waiting for a line."""
        super().__init__(descriptor, closefd=closefd)
        self._should_stop = should_stop
        self._lines: deque[bytes] = deque()
        self._rest = b""  # bytes read after the last line end
        self._is_at_end = False  # A terminal reports its end only once.
        self._patience = _PATIENCE_SECONDS
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next whole line with its end.

        Raises:
            StoppedError: `should_stop` returned True before a line arrived.
        """
        while not self._wait(_POLL_SECONDS):
            if self._should_stop():
                raise StoppedError("stopped while waiting for more input")
        return self._lines.popleft() if self._lines else b""

    def has_line(self) -> bool:
        """Return whether a line, or the end, can be read without a long wait.

        If not, the caller should process the lines read so far before it reads the next one.
        """
        if self._lines:
            return True
        start = time.monotonic()
        is_available = self._wait(self._patience)
        self._patience -= time.monotonic() - start
        if is_available and self._patience > 0:
            return True
        self._patience = _PATIENCE_SECONDS
        return False

    def _wait(self, seconds: float) -> bool:
        """Return whether a line, or the end, is available. Wait for bytes if not."""
        if not (self._lines or self._is_at_end) and self._poll.poll(seconds * 1000):
            content = self.read(_PIPE_BYTES)
            if content:
                *lines, self._rest = (self._rest + content).split(b"\n")
                self._lines.extend(line + b"\n" for line in lines)
            elif content is not None:  # None: another process has read the bytes.
                self._is_at_end = True
                if self._rest:
                    self._lines.append(self._rest)
        return bool(self._lines) or self._is_at_end


def open_standard_input(should_stop: Callable[[], bool] = lambda: False) -> BinaryIO:
    """Return standard input as a file of bytes. It is a `Pipe` if it is no regular file."""
    if sys.stdin is None:
        raise InputError("standard input is closed. Name a file, or pipe a text into it.")
    file = sys.stdin.buffer
    if file.isatty():
        logger.info("Reading from the terminal; Ctrl-D ends the text.")
    with suppress(io.UnsupportedOperation):  # A file in memory has no descriptor.
        if hasattr(select, "poll") and not os.path.isfile(file.fileno()):
            return Pipe(file.fileno(), should_stop, closefd=False)
    return file


def open_fifo(path: str | Path, should_stop: Callable[[], bool]) -> Pipe:
    """Open a named pipe."""
    # Linux does not wait for the writer here. Other systems would report an empty pipe.
    flag = os.O_NONBLOCK if sys.platform == "linux" else 0
    return Pipe(os.open(path, os.O_RDONLY | flag), should_stop)


MAX_TEXT_BYTES: Final = 1 << 28
"""Maximum size of a file that is read as a whole."""
_HEAD_BYTES: Final = 1 << 16
"""Number of bytes at the beginning of a file in which its line ends are looked for."""
LATIN1_ADVICE: Final = "If it is Latin-1, convert it with `iconv -f latin1 -t utf-8`."


class InvalidLine(str):
    """Readable part of a line that is not UTF-8, with `skip_errors`. It is never blank."""

    error: str


def check_input(path: str | Path) -> None:
    """Raise an `InputError` if a text file cannot be read.

    A named pipe is not opened, because it can be opened only once.
    """
    if str(path) != STANDARD_INPUT and not Path(path).is_fifo():
        with open_text(path):
            pass


@contextmanager
def open_text(
    path: str | Path, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[BinaryIO]:
    """Open a text file for `read_lines`.

    Args:
        path: Path of the file; `-` is standard input.
        should_stop: Called while a pipe waits for input. Return True to stop waiting.
    """
    if str(path) == STANDARD_INPUT:
        yield open_standard_input(should_stop)
        return
    file: BinaryIO
    try:
        is_fifo = Path(path).is_fifo()
        file = open_fifo(path, should_stop) if is_fifo else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        kind = missing_if(error, InputError, MissingInputError)
        raise kind(f"{path}: cannot read the input: {error.strerror}") from None
    with file:
        yield file


class LineReader:
    """Reader for the lines of an open text file, as bytes with their ends."""

    def __init__(
        self, path: str | Path, file: BinaryIO, *, first: int = 1, splits_at_cr: bool = False
    ) -> None:
        """Read the lines of a file. Compressed data is decompressed.

        Args:
            path: Name for error messages.
            file: File from `open_text`, at its beginning.
            first: Number of the first line.
            splits_at_cr: End a line at a lone CR too, even if other lines end in LF.
        """
        self.path, self.file = path, file
        self.stream = decompressed(file)
        """File with the decompressed lines."""
        self.number = first - 1
        """Number of the line that was read last."""
        self._splits_at_cr = splits_at_cr
        self._is_at_start = True
        self._rest = b""  # bytes that were read, but not returned yet
        self._lines: deque[bytes] = deque()  # lines that were split from such bytes

    @property
    def is_compressed(self) -> bool:
        """True if the file is decompressed."""
        return self.stream is not self.file

    def seek(self, offset: int) -> None:
        """Move from the beginning of the file to a line at an offset in decompressed bytes."""
        if offset:
            self._begin()
            self._rest = b""
            self.stream.seek(offset)

    def next_line(self) -> bytes:
        """Return the next line with its end, or empty bytes after the last line.

        Raises:
            InputError: the file is damaged, or is no text.
        """
        if self._is_at_start:
            self._begin()
        if self._splits_at_cr:
            while not self._lines and self._split_more():
                pass
            line = self._lines.popleft() if self._lines else b""
        elif self._rest:
            line, self._rest = self._rest, b""
            line += b"" if line.endswith(b"\n") else self._readline()
        else:
            line = self._readline()
        self.number += 1
        return line

    def decode(self, line: bytes, *, skip_errors: bool = False, keep_ends: bool = False) -> str:
        """Decode the line that was read last, without the whitespace at its ends.

        Args:
            line: Bytes of the line.
            skip_errors: Return an `InvalidLine` if the line is not UTF-8.
            keep_ends: Keep the whitespace at its ends.

        Raises:
            InputError: the line is not UTF-8.
        """
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            return text if keep_ends else text.strip()
        except UnicodeDecodeError as error:
            reason = not_utf8(self.path, error, self.number)
        if not skip_errors:
            raise reason
        readable = line.decode("utf-8", "replace")
        invalid = InvalidLine(readable if keep_ends else readable.strip())
        invalid.error = str(reason)
        return invalid

    def is_ready(self) -> bool:
        """Return whether the next line can be read without a long wait: see `Pipe.has_line`."""
        return bool(self._lines) or not isinstance(self.file, Pipe) or self.file.has_line()

    def _begin(self) -> None:
        """Find the line ends of a file by its beginning. Refuse data that is no text."""
        self._is_at_start = False
        self._rest = self._readline(_HEAD_BYTES)
        if error := binary_error(self.path, self._rest):
            raise error
        if b"\n" not in self._rest and b"\r" in self._rest:
            self._splits_at_cr = True

    def _split_more(self) -> bool:
        """Split the next bytes into lines. Return False at the end of the file."""
        more = b""
        if not self._rest.endswith(b"\n"):
            # The limit grows with the line, so that a long line is copied only a few times.
            more = self._readline(max(_HEAD_BYTES, len(self._rest)))
        content, self._rest = self._rest + more, b""
        pieces = content.splitlines(keepends=True)
        if more and not more.endswith(b"\n"):
            self._rest = pieces.pop()  # Its end may follow: also LF after CR.
        self._lines.extend(pieces)
        return content != b""

    def _readline(self, limit: int = -1) -> bytes:
        try:
            return self.stream.readline(limit)
        except Exception as error:
            if not is_damage(error):
                raise
            location = f"{name_of(self.path)}, line {self.number + 1}"
            raise InputError(f"{location}: cannot read on: {first_line(error)}") from None


def _split_text(text: str) -> list[str]:
    """Split text after each CR, LF and CRLF. The method `splitlines` also splits elsewhere."""
    return [line for line in re.split(r"(?<=\r)(?!\n)|(?<=\n)", text) if line]


def read_lines(
    reader: LineReader,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    skip_errors: bool = False,
    keep_ends: bool = False,
) -> Iterator[str]:
    """Yield the lines of an open text file, without the whitespace at their ends.

    Args:
        reader: Reader of the file.
        on_bytes: Called with the number of bytes of each line in the file, compressed or not.
        skip_errors: Yield an `InvalidLine` for a line that is not UTF-8.
        keep_ends: Keep the whitespace at the ends of lines.
    """
    position = 0
    while True:
        line = reader.next_line()
        before = position
        position = reader.file.tell() if reader.is_compressed else position + len(line)
        if line:
            yield reader.decode(line, skip_errors=skip_errors, keep_ends=keep_ends)
        on_bytes(position - before)  # Compressed data has bytes after its last line.
        if not line:
            return


@contextmanager
def open_lines(
    source: IO[str] | str | Path,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    splits_at_cr: bool = False,
    keep_ends: bool = False,
) -> Iterator[tuple[Iterator[str], Callable[[], bool]]]:
    """Open the lines of a file, given by its path or already open as text.

    For the options see `read_lines`, `open_text` and `LineReader`. `on_bytes` is not called for a
    file that is already open.

    Yields:
        The lines, and a function that returns whether the next line can be read without a long
        wait: see `Pipe.has_line`.
    """
    if isinstance(source, (str, Path)):
        with open_text(source, should_stop) as file:
            reader = LineReader(source, file, splits_at_cr=splits_at_cr)
            lines = read_lines(reader, on_bytes, skip_errors=skip_errors, keep_ends=keep_ends)
            yield lines, reader.is_ready
    elif not hasattr(source, "read"):
        type_name = type(source).__name__
        raise InputError(f"the input: expected a path or an open text file, found a {type_name}.")
    else:
        lines = _lines_of_open_file(source, splits_at_cr)
        yield (lines if keep_ends else map(str.strip, lines)), lambda: True


def _lines_of_open_file(source: IO[str], splits_at_cr: bool) -> Iterator[str]:
    """Yield the lines of a file that is open as text, with their ends."""
    # Only a real file that has not been read from yet can be reconfigured.
    with suppress(AttributeError, io.UnsupportedOperation):
        source.reconfigure(newline="\n")  # type: ignore[attr-defined]
    for number, line in enumerate(source):
        if not isinstance(line, str):
            raise InputError("the input: expected a file that is open as text, found a binary file")
        line = line.removeprefix("" if number else "\ufeff")
        if "\r" in line and (splits_at_cr or not (number or line.endswith("\n"))):
            yield from _split_text(line)
        else:
            yield line


def read_text(path: str | Path) -> str:
    """Read a whole UTF-8 file without its byte order mark. Compressed files are decompressed.

    Lines that end in CR end in LF in the result.

    Raises:
        OSError: the file cannot be read, or has more than `MAX_TEXT_BYTES`.
        UnicodeDecodeError: the file is not UTF-8.
    """
    with open(path, "rb") as file:
        try:
            content = decompressed(file).read(MAX_TEXT_BYTES + 1)
        except Exception as error:
            if not is_damage(error) or (isinstance(error, OSError) and error.errno):
                raise
            raise OSError(errno.EIO, f"damaged data: {error}", str(path)) from None
    if len(content) > MAX_TEXT_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_TEXT_BYTES:,} bytes", str(path))
    text = content.decode("utf-8-sig")
    return text if "\n" in text else text.replace("\r", "\n")


def binary_error(path: str | Path, content: bytes) -> InputError | None:
    """Return the error for a file that is no text by its first bytes, or None."""
    if file_type := binary_type(content):
        return InputError(f"{name_of(path)}: {file_type[0]}, not UTF-8 text. {file_type[1]}")
    return None


def not_utf8(path: str | Path, error: UnicodeDecodeError, number: int = 1) -> InputError:
    """Return the error for a text that is not UTF-8 and begins with line `number`."""
    # Neither `error.object` nor the positions of the error include the byte order mark.
    content: bytes = error.object
    start = content.rfind(b"\n", 0, error.start) + 1
    line = number + content.count(b"\n", 0, start)
    column = len(content[start : error.start].decode("utf-8")) + 1
    if number == 1 and (refusal := binary_error(path, content)):
        return refusal
    advice = LATIN1_ADVICE
    if any(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in content):
        advice = "It has control characters, so it seems to be no text."
    return InputError(
        f"{name_of(path)}, line {line}, column {column}: not valid UTF-8 (byte "
        f"0x{content[error.start]:02x}). {advice}"
    )


def check_source(source: object) -> None:
    """Raise an `InputError` unless an input is a path, or a file or list of lines of text."""
    is_path = isinstance(source, (str, Path))
    is_binary = isinstance(source, (io.RawIOBase, io.BufferedIOBase))
    has_lines = hasattr(source, "__iter__") and not isinstance(source, (bytes, Mapping))
    if is_binary or not (is_path or has_lines):
        kind = "a binary file" if is_binary else kind_of(source)
        raise InputError(
            f"the input: expected a path or a file that is open as text, found {kind}."
        )


def name_of(source: object) -> str:
    """Return the name of an input for error messages."""
    if not isinstance(source, (str, Path)):
        return "the input"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def size_in_bytes(source: object) -> int | None:
    """Return the size of a file, or None for a stream or a file that is already open."""
    is_file = isinstance(source, (str, Path)) and os.path.isfile(source)
    return os.path.getsize(str(source)) if is_file else None
