"""Sources of text: opened once, with their first bytes known, and read line by line.

A file is plain or compressed (gzip, bzip2, xz, zstd), a pipe or standard input. Its encoding is
UTF-8; data of another type is an error with advice. A line ends in LF or CRLF. A file without any
LF at its beginning has lines that end in CR. The lines of pipes and of standard input are read as
they arrive, so their first bytes are not known before.
"""

import errno
import io
import logging
import os
import re
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, BinaryIO, Final

from elmo_cli.errors import (
    InputError,
    StoppedError,
    first_line,
    ignore,
    kind_of,
    not_read,
)
from elmo_cli.text.file_types import binary_error, decompressed, is_damage

logger = logging.getLogger(__name__)

STANDARD_INPUT: Final = "-"
_NAMES: Final = {None: "the input", STANDARD_INPUT: "standard input"}
_POLL_SECONDS: Final = 0.1  # interval at which a waiting reader calls `should_stop`
_PATIENCE_SECONDS: Final = 0.02
"""Time that `Pipe.has_line` waits before it returns False, so that a fast writer fills batches."""
_PIPE_BYTES: Final = 1 << 16
_HEAD_BYTES: Final = (
    4096  # bytes at the beginning of a file that show its type and format
)
_LINE_END_BYTES: Final = (
    1 << 16
)  # bytes at the beginning of a file that show its line ends
BYTE_ORDER_MARK: Final = "\ufeff"
MAX_TEXT_BYTES: Final = 1 << 28  # maximum size of a file that is read as a whole
_PIPE: Final = "Give the name of a file, or pipe a text: `echo TEXT | elmo ... -`."


class Pipe(io.FileIO):
    """Reader for the lines of a pipe, terminal or socket, blocking or not, as they arrive."""

    def __init__(
        self, descriptor: int, should_stop: Callable[[], bool], *, closefd: bool = True
    ) -> None:
        """Read from a descriptor. Call `should_stop` repeatedly while waiting for a line."""
        super().__init__(descriptor, closefd=closefd)
        self.should_stop = should_stop
        self._lines: deque[bytes] = deque()
        self._rest = b""  # bytes read after the last line end
        self._is_at_end = False  # A terminal reports its end only once.
        self._patience = _PATIENCE_SECONDS
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next whole line with its end, or raise a `StoppedError` before."""
        line = self.peek_line()
        return self._lines.popleft() if line else line

    def peek_line(self) -> bytes:
        """Return the next whole line without reading it; see `readline`."""
        while not self._wait(_POLL_SECONDS):
            if self.should_stop():
                raise StoppedError("stopped while waiting for more input")
        return self._lines[0] if self._lines else b""

    def has_line(self) -> bool:
        """Return whether a line, or the end, can be read without a long wait."""
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


def _open_standard_input(should_stop: Callable[[], bool]) -> BinaryIO:
    """Return standard input as a file of bytes. It is a `Pipe` if it is no regular file."""
    if sys.stdin is None:
        raise InputError(
            "standard input is closed. Name a file, or pipe a text into it."
        )
    file = sys.stdin.buffer
    if file.isatty():
        logger.info("Reading from the terminal; Ctrl-D ends the text.")
    with suppress(io.UnsupportedOperation):  # A file in memory has no descriptor.
        if hasattr(select, "poll") and not os.path.isfile(file.fileno()):
            return Pipe(file.fileno(), should_stop, closefd=False)
    return file


class InvalidLine(str):
    """Readable part of a line that is not UTF-8, with `skip_errors`. It is never blank."""

    error: str


class Source:
    """Input that is opened once: a path, `-` for standard input, or an open text file.

    The first use of its content opens it. Who reads its records, or its last reference, closes it.
    """

    def __init__(self, given: object, advice: str = _PIPE) -> None:
        """Take an input. `advice` is for a name that seems to be no name of a file."""
        is_path = isinstance(given, (str, Path))
        is_binary = isinstance(given, (io.RawIOBase, io.BufferedIOBase))
        if not is_path and (is_binary or not hasattr(given, "read")):
            kind = "a binary file" if is_binary else kind_of(given)
            raise InputError(
                f"the input: expected a path or an open text file, found {kind}."
            )
        self._given, self._advice = given, advice
        self.path = str(given) if is_path else None
        """Path or `-`; None for an open text file."""
        self.name = _NAMES.get(self.path) or str(self.path)
        """Name in messages."""
        self._file: BinaryIO | None = None

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @cached_property
    def is_file(self) -> bool:
        """True for a regular file, which has a head and a size, and can be read again."""
        return self.path not in (None, STANDARD_INPUT) and os.path.isfile(
            str(self.path)
        )

    @property
    def size(self) -> int | None:
        """Size of a file in bytes; None for a stream."""
        return os.path.getsize(str(self.path)) if self.is_file else None

    @cached_property
    def head(self) -> bytes:
        """First bytes, decompressed; empty for a stream, and for a file that cannot be read."""
        content = b""
        if self.is_file:
            with suppress(
                Exception
            ):  # The reader of the whole file explains the error.
                content = decompressed(self.open()).read(_HEAD_BYTES)
            self.rewind()
        return content

    @cached_property
    def first_line(self) -> bytes:
        """First line of standard input, which stays readable; empty for a terminal."""
        if self.path != STANDARD_INPUT or sys.stdin is None or sys.stdin.isatty():
            return b""
        file = self.open()
        if isinstance(file, Pipe) or not file.seekable():
            return file.peek_line() if isinstance(file, Pipe) else b""
        start = file.tell()
        line = file.readline()
        file.seek(start)
        return line

    def open(self, should_stop: Callable[[], bool] = ignore) -> BinaryIO:
        """Return the open file; `should_stop` is called while a pipe waits for input."""
        if self._file is None:
            is_dash = self.path == STANDARD_INPUT
            self._file = (_open_standard_input if is_dash else self._open_path)(
                should_stop
            )
        elif isinstance(self._file, Pipe):
            self._file.should_stop = should_stop
        return self._file

    def _open_path(self, should_stop: Callable[[], bool]) -> BinaryIO:
        path = str(self.path)
        try:
            if not Path(path).is_fifo():
                return open(path, "rb")
            # Linux does not wait for the writer here. Other systems would report an empty pipe.
            flag = os.O_NONBLOCK if sys.platform == "linux" else 0
            return Pipe(os.open(path, os.O_RDONLY | flag), should_stop)
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            remedy = (
                self._advice
                if is_missing and not re.fullmatch(r"\S*\.\S*", path)
                else ""
            )
            if isinstance(error, IsADirectoryError):
                remedy = "To read the files in it, use `cat FOLDER/* | elmo ... -`."
            raise not_read(path, "input", error, InputError, remedy) from None

    def check(self) -> None:
        """Raise an `InputError` if a file cannot be opened. Streams are not opened yet."""
        if (
            self.path not in (None, STANDARD_INPUT)
            and not Path(str(self.path)).is_fifo()
        ):
            self.open()

    def rewind(self) -> None:
        """Go back to the beginning of a file."""
        if self._file is not None:
            self._file.seek(0)

    def close(self) -> None:
        """Close a file that was opened here. If it is used again, it is opened again."""
        file, self._file = getattr(self, "_file", None), None
        if file is not None and self.path != STANDARD_INPUT:
            file.close()

    def lines(
        self,
        on_bytes: Callable[[int], object] = ignore,
        *,
        skip_errors: bool = False,
        should_stop: Callable[[], bool] = ignore,
        splits_at_cr: bool = False,
        keep_ends: bool = False,
    ) -> tuple[Iterator[str], Callable[[], bool]]:
        """Return the lines, and a function that returns whether the next one is ready.

        `on_bytes` gets the number of bytes of each line of a path. `should_stop` is called while a
        pipe waits for input. With `skip_errors`, a line that is not UTF-8 is an `InvalidLine`. With
        `splits_at_cr`, a lone CR ends a line too, even if other lines end in LF.
        """
        if self.path is None:
            lines = _lines_of_open_file(self._given, splits_at_cr)  # type: ignore[arg-type]
            return (lines if keep_ends else map(str.strip, lines)), lambda: True
        reader = LineReader(
            self.name, self.open(should_stop), splits_at_cr=splits_at_cr
        )
        return reader.lines(on_bytes, skip_errors, keep_ends), reader.is_ready


class LineReader:
    """Reader for the lines of an open file, as bytes with their ends."""

    def __init__(
        self, name: str, file: BinaryIO, *, first: int = 1, splits_at_cr: bool = False
    ) -> None:
        """Read the lines of a file, decompressed; the number of the next one is `first`."""
        self._name, self._file = name, file
        self._stream = decompressed(file)
        self.is_compressed = self._stream is not file
        self.number = first - 1  # number of the line that was read last
        self._splits_at_cr = splits_at_cr
        self._is_at_start = True
        self._rest = b""  # bytes that were read, but not returned yet
        self._lines: deque[bytes] = deque()  # lines that were split from such bytes

    def seek(self, offset: int) -> None:
        """Move from the beginning of the file to a line at an offset in decompressed bytes."""
        if offset:
            self._begin()
            self._rest = b""
            self._stream.seek(offset)

    def next_line(self) -> bytes:
        """Return the next line with its end, or empty bytes after the last line."""
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

    def decode(
        self, line: bytes, skip_errors: bool = False, keep_ends: bool = False
    ) -> str:
        """Decode the line that was read last. See `Source.lines` for the options."""
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            text = text.lstrip(
                BYTE_ORDER_MARK
            )  # Joined files have marks at later lines too.
            return text if keep_ends else text.strip()
        except UnicodeDecodeError as error:
            reason = not_utf8(self._name, error, self.number)
        if not skip_errors:
            raise reason
        readable = line.decode("utf-8", "replace")
        invalid = InvalidLine(readable if keep_ends else readable.strip())
        invalid.error = str(reason)
        return invalid

    def lines(
        self,
        on_bytes: Callable[[int], object] = ignore,
        skip_errors: bool = False,
        keep_ends: bool = False,
    ) -> Iterator[str]:
        """Yield the lines as text; see `Source.lines`."""
        position = 0
        while True:
            line = self.next_line()
            end = self._file.tell() if self.is_compressed else position + len(line)
            if line:
                yield self.decode(line, skip_errors, keep_ends)
            on_bytes(end - position)  # Compressed data has bytes after its last line.
            if not line:
                return
            position = end

    def is_ready(self) -> bool:
        """Return whether the next line can be read without a long wait: see `Pipe.has_line`."""
        return (
            bool(self._lines)
            or not isinstance(self._file, Pipe)
            or self._file.has_line()
        )

    def _begin(self) -> None:
        """Find the line ends of a file by its beginning. Refuse data that is no text."""
        self._is_at_start = False
        self._rest = self._readline(_LINE_END_BYTES)
        if error := binary_error(self._name, self._rest):
            raise error
        if b"\n" not in self._rest and b"\r" in self._rest:
            self._splits_at_cr = True

    def _split_more(self) -> bool:
        """Split the next bytes into lines. Return False at the end of the file."""
        more = b""
        if not self._rest.endswith(b"\n"):
            # The limit grows with the line, so that a long line is copied only a few times.
            more = self._readline(max(_LINE_END_BYTES, len(self._rest)))
        content, self._rest = self._rest + more, b""
        pieces = content.splitlines(keepends=True)
        if more and not more.endswith(b"\n"):
            self._rest = pieces.pop()  # Its end may follow: also LF after CR.
        self._lines.extend(pieces)
        return content != b""

    def _readline(self, limit: int = -1) -> bytes:
        try:
            return self._stream.readline(limit)
        except Exception as error:
            if not is_damage(error):
                raise
            location = f"{self._name}, line {self.number + 1}"
            raise InputError(
                f"{location}: reading failed: {first_line(error)}"
            ) from None


def _lines_of_open_file(source: IO[str], splits_at_cr: bool) -> Iterator[str]:
    """Yield the lines of a file that is open as text, with their ends."""
    # Only a real file that has not been read from yet can be reconfigured.
    with suppress(AttributeError, io.UnsupportedOperation):
        source.reconfigure(newline="\n")  # type: ignore[attr-defined]
    for number, line in enumerate(source):
        if not isinstance(line, str):
            raise InputError(
                "the input: expected a file that is open as text, found a binary file"
            )
        line = line.lstrip(BYTE_ORDER_MARK)
        if "\r" in line and (splits_at_cr or not (number or line.endswith("\n"))):
            # The method `splitlines` also splits elsewhere than after CR, LF and CRLF.
            yield from filter(None, re.split(r"(?<=\r)(?!\n)|(?<=\n)", line))
        else:
            yield line


def read_text(path: str | Path, max_bytes: int | None = None) -> str:
    """Read a whole UTF-8 file, decompressed, without its byte order mark, and with LF for CR.

    An error of the file is an `OSError`, also for more than `max_bytes`, or `MAX_TEXT_BYTES`.
    """
    max_bytes = max_bytes or MAX_TEXT_BYTES
    with open(path, "rb") as file:
        try:
            content = decompressed(file).read(max_bytes + 1)
        except Exception as error:
            if not is_damage(error) or (isinstance(error, OSError) and error.errno):
                raise
            raise OSError(errno.EIO, f"damaged data: {error}", str(path)) from None
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes:,} bytes", str(path))
    text = content.decode("utf-8-sig")
    return text if "\n" in text else text.replace("\r", "\n")


def not_utf8(name: str, error: UnicodeDecodeError, number: int = 1) -> InputError:
    """Return the error for a text that is not UTF-8 and begins with line `number`."""
    # Neither `error.object` nor the positions of the error include the byte order mark.
    content: bytes = error.object
    start = content.rfind(b"\n", 0, error.start) + 1
    line = number + content.count(b"\n", 0, start)
    column = len(content[start : error.start].decode("utf-8")) + 1
    if number == 1 and (refusal := binary_error(name, content)):
        return refusal
    # Windows-1252 is Latin-1 with letters and quotes in place of control characters.
    advice = "If it is Windows-1252 or Latin-1, convert it with `iconv -f windows-1252 -t utf-8`."
    if any(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in content):
        advice = "It contains control characters, so it is probably not a text."
    return InputError(
        f"{name}, line {line}, column {column}: not valid UTF-8 (byte "
        f"0x{content[error.start]:02x}). {advice}"
    )
