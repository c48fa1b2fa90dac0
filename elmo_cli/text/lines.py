"""A text file to lines.

Files are plain or gzip, a pipe or standard input, and always UTF-8. A line is a sentence; it ends
in LF or CRLF. White space separates its tokens, as in `str.split`; a lone CR is white space.
"""

import errno
import gzip
import io
import logging
import os
import select
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import IO, BinaryIO, NamedTuple, TypeVar

from elmo_cli.errors import InputError, StoppedError

logger = logging.getLogger(__name__)

Sentence = list[str]
_Tokens = TypeVar("_Tokens", bound=Sequence[str])

STANDARD_INPUT = "-"

_POLL_SECONDS = 0.1
"""Seconds between two questions whether a waiting reader should stop."""
_PATIENCE_SECONDS = 0.02
"""Seconds that `Pipe.has_line` waits before it is False, so that a fast writer fills batches."""
_PIPE_BYTES = 1 << 16
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
    """What can be read of a line that is not UTF-8, with `skip_errors`; never blank."""

    error: str


class Pipe(io.FileIO):
    """A pipe, terminal or socket, blocking or not: its lines as they come."""

    def __init__(
        self, descriptor: int, should_stop: Callable[[], bool], *, closefd: bool = True
    ) -> None:
        """Read from a descriptor; `should_stop` is asked while a line is not there."""
        super().__init__(descriptor, closefd=closefd)
        self._should_stop = should_stop
        self._lines: deque[bytes] = deque()
        self._rest = b""  # read after the last line end
        self._is_at_end = False  # kept, for a terminal tells of it once
        self._patience = _PATIENCE_SECONDS
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line, whole, with its end; a `StoppedError` if it should not be waited for."""
        while not self._wait(_POLL_SECONDS):
            if self._should_stop():
                raise StoppedError("stopped while waiting for more input")
        return self._lines.popleft() if self._lines else b""

    def has_line(self) -> bool:
        """Whether a line, or the end, can be read without a long wait.

        If not, the lines read so far should be answered before the next one is read.
        """
        if self._lines:
            return True
        start = time.monotonic()
        is_there = self._wait(self._patience)
        self._patience -= time.monotonic() - start
        if is_there and self._patience > 0:
            return True
        self._patience = _PATIENCE_SECONDS
        return False

    def _wait(self, seconds: float) -> bool:
        """Whether a line, or the end, is there; waits for bytes if not."""
        if not (self._lines or self._is_at_end) and self._poll.poll(seconds * 1000):
            content = self.read(_PIPE_BYTES)
            if content:
                *lines, self._rest = (self._rest + content).split(b"\n")
                self._lines.extend(line + b"\n" for line in lines)
            elif content is not None:  # the end; None where another process was first
                self._is_at_end = True
                if self._rest:
                    self._lines.append(self._rest)
        return bool(self._lines) or self._is_at_end


def check_input(path: str | Path) -> None:
    """Make sure that a text file can be read, without opening a pipe, which opens only once."""
    if str(path) != STANDARD_INPUT and (is_compressed(path) or not Path(path).is_fifo()):
        with open_text(path):
            pass


@contextmanager
def open_text(
    path: str | Path, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[BinaryIO]:
    """Open a text file for `read_lines`: `-` is standard input. For `should_stop` see `Pipe`."""
    if str(path) == STANDARD_INPUT:
        yield _standard_input(should_stop)
        return
    if is_compressed(path) and Path(path).is_fifo():
        raise InputError(f"{path}: expected a file, found a named pipe; `zcat {path} | elmo ... -`")
    file: BinaryIO
    try:
        if Path(path).is_fifo():
            # Linux does not wait for its writer here. Elsewhere it would read as empty before.
            flag = os.O_NONBLOCK if sys.platform == "linux" else 0
            file = Pipe(os.open(path, os.O_RDONLY | flag), should_stop)
        else:
            file = open(path, "rb")  # noqa: SIM115
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
    with suppress(io.UnsupportedOperation):  # in memory
        if hasattr(select, "poll") and not os.path.isfile(file.fileno()):
            return Pipe(file.fileno(), should_stop, closefd=False)
    return file


def read_lines(
    path: str | Path,
    file: BinaryIO,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    first: int = 1,
    skip_errors: bool = False,
) -> Iterator[str]:
    """The lines of an open text file, without the white space at their ends.

    Args:
        path: the name for error messages; a name in `.gz` is decompressed.
        file: from `open_text`.
        on_bytes: called with the number of bytes of each line in the file, compressed or not.
        first: the number of the next line.
        skip_errors: give a line that is not UTF-8 as an `InvalidLine`.
    """
    stream = decompressed(path, file)
    position = 0
    for number in count(first):
        line = next_line(path, stream, number)
        before, position = position, position + len(line) if stream is file else file.tell()
        if line:
            yield decode_line(path, line, number, skip_errors=skip_errors)
        on_bytes(position - before)  # after the last line too: compressed data has an end
        if not line:
            return


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
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Iterator[str], Callable[[], bool]]]:
    """Open a text file, given by its path or already open as text, for `read_lines`.

    `on_bytes` is not called for a file that is already open.

    Yields:
        Its lines, and a function that says whether the next one is there: see `Pipe.has_line`.
    """
    if isinstance(source, (str, Path)):
        with open_text(source, should_stop) as file:
            is_ready = file.has_line if isinstance(file, Pipe) else lambda: True
            yield read_lines(source, file, on_bytes, skip_errors=skip_errors), is_ready
    else:
        yield _lines_of(source), lambda: True


def _lines_of(source: IO[str]) -> Iterator[str]:
    with suppress(AttributeError, io.UnsupportedOperation):  # of no file, or one read in part
        source.reconfigure(newline="\n")  # type: ignore[attr-defined]
    for number, line in enumerate(source):
        yield line.removeprefix("" if number else "\ufeff").strip()


def next_line(path: str | Path, stream: BinaryIO, number: int) -> bytes:
    """The next line of an open file with the end of line, empty after the last one."""
    try:
        return stream.readline()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name_of(path)}, line {number}: cannot read on: {error}") from None


def decode_line(path: str | Path, line: bytes, number: int, *, skip_errors: bool = False) -> str:
    """A line as text, without the white space at its ends; its number counts from 1.

    One that is not UTF-8 is an `InputError`, or with `skip_errors` an `InvalidLine`.
    """
    if number == 1 and len(line) > 1 and not (any(line[::2]) and any(line[1::2])):
        raise InputError(
            f"{name_of(path)}, line 1: expected UTF-8, found every other byte zero, as in UTF-16; "
            "convert it with `iconv -f utf-16le -t utf-8`, or utf-16be"
        )
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        reason = not_utf8(path, error, number)
    if not skip_errors:
        raise reason
    invalid = InvalidLine(line.decode("utf-8", "replace").strip())
    invalid.error = str(reason)
    return invalid


def read_text(path: str | Path) -> str:
    """Read a whole file as UTF-8, without its byte order mark; `.gz` is decompressed.

    Raises:
        OSError: it cannot be read, or has more than `MAX_TEXT_BYTES`: an endless device, perhaps.
        UnicodeDecodeError: it is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = decompressed(path, file).read(MAX_TEXT_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OSError(errno.EIO, f"damaged gzip data: {error}", str(path)) from None
    if len(content) > MAX_TEXT_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_TEXT_BYTES:,} bytes", str(path))
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


def checked_sentence(sentence: _Tokens) -> _Tokens:
    """Check that a sentence is a sequence of strings, and no string, and return it."""
    if isinstance(sentence, (str, bytes)):
        raise InputError(
            f"expected a sentence as a list of tokens, found the string {sentence[:40]!r}; split "
            "it first, for instance by .split()"
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
