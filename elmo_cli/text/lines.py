"""Lines of a text file: from bytes to text.

A file is plain or compressed, a pipe or standard input. Its encoding is UTF-8. A line ends in LF
or CRLF. A file without any LF at its beginning has lines that end in CR.
"""

import errno
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final

from elmo_cli.errors import InputError, MissingInputError, first_line, missing_if
from elmo_cli.text.compression import decompressed, is_damage
from elmo_cli.text.file_types import binary_type
from elmo_cli.text.pipes import STANDARD_INPUT, Pipe, open_fifo, open_standard_input
from elmo_cli.text.records import kind_of

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
