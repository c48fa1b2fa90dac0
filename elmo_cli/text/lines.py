"""Lines of a text file: from bytes to text.

A file is plain or gzip, a pipe or standard input. Its encoding is UTF-8. A line ends in LF or
CRLF.
"""

import errno
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, BinaryIO, Final

from elmo_cli.errors import InputError
from elmo_cli.text.pipes import STANDARD_INPUT, Pipe, open_fifo, open_standard_input

MAX_TEXT_BYTES: Final = 1 << 28
"""Maximum size of a file that is read as a whole."""

_OTHER_DATA: Final = {
    b"\x1f\x8b": "it is gzip data, which is read from a file whose name ends in .gz; else pipe in "
    "`zcat`",
    b"\xfd7zXZ": "it is xz data, which is not read; pipe in `xzcat`",
    b"\x28\xb5\x2f\xfd": "it is zstd data, which is not read; pipe in `zstdcat`",
    b"\x89HDF": "it is HDF5, which is no text",
    b"\xff\xfe": "it is UTF-16; convert it with `iconv -f utf-16 -t utf-8`",
    b"\xfe\xff": "it is UTF-16; convert it with `iconv -f utf-16 -t utf-8`",
}
"""First bytes of data that is no UTF-8 text, and the advice for it."""


class InvalidLine(str):
    """Readable part of a line that is not UTF-8, with `skip_errors`. It is never blank."""

    error: str


def check_input(path: str | Path) -> None:
    """Raise an `InputError` if a text file cannot be read.

    A named pipe is not opened, because it can be opened only once.
    """
    if str(path) != STANDARD_INPUT and (is_compressed(path) or not Path(path).is_fifo()):
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
    is_fifo = Path(path).is_fifo()
    if is_fifo and is_compressed(path):
        raise InputError(f"{path}: expected a file, found a named pipe; `zcat {path} | elmo ... -`")
    file: BinaryIO
    try:
        file = open_fifo(path, should_stop) if is_fifo else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{path}: cannot read the input: {error.strerror}") from None
    with file:
        yield file


def read_lines(
    path: str | Path,
    file: BinaryIO,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    first: int = 1,
    skip_errors: bool = False,
) -> Iterator[str]:
    """Yield the lines of an open text file, without the whitespace at their ends.

    Args:
        path: Name for error messages. A file whose name ends in `.gz` is decompressed.
        file: File from `open_text`.
        on_bytes: Called with the number of bytes of each line in the file, compressed or not.
        first: Number of the next line.
        skip_errors: Yield an `InvalidLine` for a line that is not UTF-8.
    """
    stream = decompressed(path, file)
    position = 0
    for number in count(first):
        line = next_line(path, stream, number)
        before, position = position, position + len(line) if stream is file else file.tell()
        if line:
            yield decode_line(path, line, number, skip_errors=skip_errors)
        on_bytes(position - before)  # Compressed data has bytes after its last line.
        if not line:
            return


def is_compressed(path: str | Path) -> bool:
    """Return whether a file is decompressed. Its name decides."""
    return str(path).endswith(".gz")


def decompressed(path: str | Path, file: BinaryIO) -> BinaryIO:
    """Return an open file, or a reader that decompresses it if its name ends in `.gz`."""
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
    """Open the lines of a file, given by its path or already open as text: see `read_lines`.

    `on_bytes` is not called for a file that is already open.

    Yields:
        The lines, and a function that returns whether the next line can be read without a long
        wait: see `Pipe.has_line`.
    """
    if isinstance(source, (str, Path)):
        with open_text(source, should_stop) as file:
            is_ready = file.has_line if isinstance(file, Pipe) else lambda: True
            yield read_lines(source, file, on_bytes, skip_errors=skip_errors), is_ready
    else:
        yield _lines_of_open_file(source), lambda: True


def _lines_of_open_file(source: IO[str]) -> Iterator[str]:
    # Only a real file that nobody has read from yet can be reconfigured.
    with suppress(AttributeError, io.UnsupportedOperation):
        source.reconfigure(newline="\n")  # type: ignore[attr-defined]
    for number, line in enumerate(source):
        yield line.removeprefix("" if number else "\ufeff").strip()


def next_line(path: str | Path, stream: BinaryIO, number: int) -> bytes:
    """Return the next line of an open file with its end, or empty bytes after the last line."""
    try:
        return stream.readline()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name_of(path)}, line {number}: cannot read on: {error}") from None


def decode_line(path: str | Path, line: bytes, number: int, *, skip_errors: bool = False) -> str:
    """Decode a line and remove the whitespace at its ends.

    Args:
        path: Name for error messages.
        line: Bytes of the line.
        number: Number of the line, from 1.
        skip_errors: Return an `InvalidLine` if the line is not UTF-8.

    Raises:
        InputError: the line is not UTF-8.
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
    """Read a whole UTF-8 file without its byte order mark. `.gz` files are decompressed.

    Raises:
        OSError: the file cannot be read, or has more than `MAX_TEXT_BYTES`.
        UnicodeDecodeError: the file is not UTF-8.
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
    """Return the error for a text that is not UTF-8 and begins with line `number`."""
    # Neither `error.object` nor the positions of the error include the byte order mark.
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
    """Return the name of an input for error messages."""
    if not isinstance(source, (str, Path)):
        return "the input"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def size_in_bytes(source: object) -> int | None:
    """Return the size of a file, or None for a stream or a file that is already open."""
    is_file = isinstance(source, (str, Path)) and os.path.isfile(source)
    return os.path.getsize(str(source)) if is_file else None
