"""A text file to lines, and a line to tokens.

Files are plain or gzip, a pipe or standard input, and always UTF-8. A line is a sentence; it ends
in LF or CRLF. White space separates its tokens, as in `str.split`; a lone CR is white space.
"""

import errno
import gzip
import io
import logging
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import IO, BinaryIO, NamedTuple, TypeVar

from elmo_cli.errors import InputError
from elmo_cli.text.pipes import Pipe, is_pipe, never, open_pipe

logger = logging.getLogger(__name__)

Sentence = list[str]
_Tokens = TypeVar("_Tokens", bound=Sequence[str])

STANDARD_INPUT = "-"

MAX_TEXT_BYTES = 1 << 28
"""Of a file that is read as a whole."""

_OTHER_DATA = {
    b"\x1f\x8b": "it is gzip data, which is read from a file whose name ends in .gz; else pipe in "
    "`zcat`",
    b"\xfd7zXZ": "it is xz data, which is not read; pipe in `xzcat`",
    b"\x28\xb5\x2f\xfd": "it is zstd data, which is not read; pipe in `zstdcat`",
    b"\x89HDF": "it is HDF5, which is no text",
    b"\xff\xfe": "it is UTF-16; convert it with `iconv -f utf-16 -t utf-8`",
    b"\xfe\xff": "it is UTF-16; convert it with `iconv -f utf-16 -t utf-8`",
}
"""The first bytes of data that is not UTF-8 text, and what to do with it."""

_SHOWN = 40
"""Maximum number of characters of a string in a message."""


class Record(NamedTuple):
    """A part of the input that gets one dataset of the output: a line, or a sequence of FASTA."""

    text: str
    """The line, or for FASTA the header and the sequence: what is hashed."""
    tokens: Sentence
    key: str | None = None
    """Name of its dataset; None for its number."""
    attributes: Mapping[str, str] = MappingProxyType({})
    """Attributes of its dataset."""
    error: str | None = None
    """Why it is skipped, with `skip_errors`; it has no tokens then."""


class InvalidLine(str):
    """What can be read of a line that is not UTF-8, with `skip_errors`."""

    def __new__(cls, text: str, error: str) -> "InvalidLine":
        """Keep the text and its error."""
        line = super().__new__(cls, text)
        line.error = error
        return line

    error: str


class Lines:
    """The lines of a text: an iterator, which knows whether the next one is there yet."""

    def __init__(self, lines: Iterator[str], is_ready: Callable[[], bool] = lambda: True) -> None:
        """Take the lines of a text, and a function for `is_ready`."""
        self._lines = lines
        self.is_ready = is_ready
        """Whether the next line, or the end, can be read without a long wait.

        Where it is not, the lines read so far should be answered first. See `Pipe.has_line`.
        """

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        return next(self._lines)


def check_input(path: str | Path) -> None:
    """Make sure that a text file can be read, without opening it: a pipe opens only once.

    Raises:
        InputError: the file is missing, a directory or not readable.
    """
    if str(path) == STANDARD_INPUT:
        return
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: cannot read the input: {reason}") from None
    if is_directory or not os.access(path, os.R_OK):
        reason = os.strerror(errno.EISDIR if is_directory else errno.EACCES)
        raise InputError(f"{path}: cannot read the input: {reason}")


@contextmanager
def open_text(path: str | Path, should_stop: Callable[[], bool] = never) -> Iterator[BinaryIO]:
    """Open a text file for `read_lines`: `-` is standard input.

    Args:
        path: of the file.
        should_stop: asked while a pipe has no bytes; True raises a `StoppedError`.

    Raises:
        InputError: the file is missing, a directory or not readable.
    """
    if str(path) == STANDARD_INPUT:
        yield _standard_input(should_stop)
        return
    try:
        file = open_pipe(path, should_stop) if _is_named_pipe(path) else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{path}: cannot read the input: {error.strerror}") from None
    with file:
        yield file


def _standard_input(should_stop: Callable[[], bool]) -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input is closed; name a file, or pipe a text into it")
    file = sys.stdin.buffer
    if file.isatty():
        logger.info("Reading from the terminal; Ctrl-D ends the text.")
    with suppress(AttributeError, io.UnsupportedOperation):  # in memory, as tests have it
        if is_pipe(file.fileno()):
            return Pipe(file.fileno(), should_stop, closefd=False)
    return file


def _is_named_pipe(path: str | Path) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def read_lines(
    path: str | Path,
    file: BinaryIO,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    skip_errors: bool = False,
) -> Iterator[str]:
    """The lines of an open text file, without the white space at their ends.

    Args:
        path: the name for error messages; a name in `.gz` is decompressed.
        file: from `open_text`.
        on_bytes: called with the number of bytes of each line in the file, compressed or not.
        skip_errors: give a line that is not UTF-8 as an `InvalidLine`.

    Raises:
        InputError: a line is not UTF-8, or the compressed data is damaged.
    """
    stream = decompressed(path, file)
    position = 0
    number = 0
    while True:
        number += 1
        line = next_line(path, stream, number)
        before, position = position, _position(stream, file, position + len(line))
        if not line:
            if position > before:  # the end of compressed data, which belongs to no line
                on_bytes(position - before)
            return
        yield decode_line(path, line, number, skip_errors=skip_errors)
        on_bytes(position - before)


def is_compressed(path: str | Path) -> bool:
    """Whether a file is decompressed: by its name."""
    return str(path).endswith(".gz")


def decompressed(path: str | Path, file: BinaryIO) -> BinaryIO:
    """An open file as it is, or decompressed where its name ends in `.gz`."""
    if is_compressed(path):
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    return file


@contextmanager
def open_lines(
    source: IO[str] | str | Path,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = never,
) -> Iterator[Lines]:
    """The lines of a text file, given by its path or already open as text.

    See `read_lines` and `open_text`; `on_bytes` is not called for a file that is already open.
    """
    if isinstance(source, (str, Path)):
        with open_text(source, should_stop) as file:
            lines = read_lines(source, file, on_bytes, skip_errors=skip_errors)
            if isinstance(file, Pipe) and not is_compressed(source):
                yield Lines(lines, file.has_line)
            else:
                yield Lines(lines)
    else:
        yield Lines(_lines_of(source))


def _lines_of(source: IO[str]) -> Iterator[str]:
    """The lines of a file that is open as text, as `read_lines` gives them.

    Raises:
        InputError: it cannot be read, or is open for bytes.
    """
    with suppress(AttributeError, io.UnsupportedOperation):  # of no file, or one read in part
        source.reconfigure(newline="\n")  # type: ignore[attr-defined]
    lines = iter(source)
    for number in count(1):
        try:
            line = next(lines, None)
        except (OSError, UnicodeError) as error:
            where = f"the input, line {number:,} or later"
            raise InputError(f"{where}: cannot read on: {error}") from None
        if line is None:
            return
        if not isinstance(line, str):
            raise InputError("the input: expected a file open as text, found one of bytes")
        yield line.removeprefix("\ufeff" if number == 1 else "").strip()


def next_line(path: str | Path, stream: BinaryIO, number: int) -> bytes:
    """The next line of an open file with the end of line, empty after the last one.

    Raises:
        InputError: it cannot be read, is too long for memory, or compressed data is damaged.
    """
    try:
        return stream.readline()
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        reason = f"cannot read on: {error}"
    except zlib.error as error:
        reason = f"damaged gzip data: {error}"
    except MemoryError:
        reason = "expected a sentence, found a line too long for memory"
    raise InputError(f"{name_of(path)}, line {number}: {reason}")


def _position(stream: BinaryIO, file: BinaryIO, plain: int) -> int:
    """Bytes of the file read so far: of the compressed file, where it is one."""
    return plain if stream is file else file.tell()


def decode_line(path: str | Path, line: bytes, number: int, *, skip_errors: bool = False) -> str:
    """A line as text, without the white space at its ends; its number counts from 1.

    With `skip_errors`, one that is not UTF-8 is an `InvalidLine`.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return _decoded(path, line, number)
    except InputError as error:
        if not skip_errors:
            raise
        return InvalidLine(line.decode("utf-8", "replace").strip(), str(error))


def _decoded(path: str | Path, line: bytes, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise not_utf8(path, error, number) from None
    if number == 1 and len(line) > 3 and any(line[::2]) != any(line[1::2]):
        encoding = "utf-16le" if any(line[::2]) else "utf-16be"
        raise InputError(
            f"{name_of(path)}, line 1: expected UTF-8, found every other byte NUL, as in UTF-16; "
            f"convert it with `iconv -f {encoding} -t utf-8`"
        )
    return text


def read_text(path: str | Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a whole file as UTF-8, without its byte order mark; `.gz` is decompressed.

    Raises:
        OSError: it cannot be read, or is larger than `max_bytes`: an endless device, perhaps.
        UnicodeDecodeError: it is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = decompressed(path, file).read(max_bytes + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OSError(errno.EIO, f"damaged gzip data: {error}", str(path)) from None
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes:,} bytes", str(path))
    return content.decode("utf-8-sig")


def not_utf8(path: str | Path, error: UnicodeDecodeError, number: int = 1) -> InputError:
    """The error for a text, beginning with line `number`, that cannot be decoded."""
    # Without the byte order mark, which the positions of the error do not count either.
    content: bytes = error.object
    start = content.rfind(b"\n", 0, error.start) + 1
    line = number + content.count(b"\n", 0, start)
    column = len(content[start : error.start].decode("utf-8")) + 1
    advice = "convert it, for instance with `iconv -f latin1 -t utf-8`"
    for beginning, known in _OTHER_DATA.items() if number == 1 else ():
        advice = known if content.startswith(beginning) else advice
    return InputError(
        f"{name_of(path)}, line {line}, column {column}: expected UTF-8, found the byte "
        f"0x{content[error.start]:02x}; {advice}"
    )


def name_of(source: object) -> str:
    """Name of an input in error messages."""
    if not isinstance(source, (str, Path)):
        return "the input"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def line_record(line: str) -> Record:
    """The record of a line."""
    if isinstance(line, InvalidLine):
        return Record("", [], error=line.error)
    return Record(line, tokens(line))


def tokens(line: str) -> Sentence:
    """The tokens of a line, separated by white space."""
    return line.split()


def checked_sentence(sentence: _Tokens) -> _Tokens:
    """Check that a sentence is a sequence of strings, and no string, and return it.

    Raises:
        InputError: it is a string, no sequence, or of something else than strings.
    """
    if isinstance(sentence, (str, bytes)):
        shown = repr(sentence if len(sentence) <= _SHOWN else sentence[:_SHOWN] + "...")
        raise InputError(
            f"expected a sentence as a list of tokens, found the string {shown}; split it first, "
            "for instance by .split()"
        )
    if not hasattr(sentence, "__getitem__"):  # an array has it too; an iterator would be used up
        raise InputError(f"expected a sentence as a list of tokens, found {sentence!r}")
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            found = type(token).__name__
            raise InputError(f"expected a sentence of strings, found {found} as token {place}")
    return sentence


def size_in_bytes(source: object) -> int | None:
    """The size of a file, for progress; None for a stream or a file that is open."""
    is_file = isinstance(source, (str, Path)) and os.path.isfile(source)
    return os.path.getsize(str(source)) if is_file else None
