"""The standard streams: every byte is written or the command fails; streams in pieces."""

import errno
import io
import os
import select
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from elmo_cli.errors import InputError, first_line

_Item = TypeVar("_Item")


_STANDARD_OUTPUT = "standard output"


class _WholeFile(io.FileIO):
    """A file whose writes are complete: it writes the rest, and waits for a full pipe.

    It fails once. Later writes are dropped, so that nothing fails when Python flushes its
    streams at exit.
    """

    _has_failed = False

    def write(self, data: Any, /) -> int:
        """Write all bytes; their number."""
        rest = memoryview(data)
        while rest and not self._has_failed:
            try:
                n_written = super().write(rest)
            except OSError as error:
                self._has_failed = True
                error.filename = _STANDARD_OUTPUT
                raise
            if n_written is None:  # not blocking, and full
                select.select([], [self], [])
            else:
                rest = rest[n_written:]
        return len(data)


class _LossyFile(io.FileIO):
    """A file that drops what it cannot write: a message must not end a run."""

    def write(self, data: Any, /) -> int:
        """Write bytes, or not; their number."""
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


class _Terminal(io.TextIOWrapper):
    """A terminal on which control characters are shown escaped."""

    def write(self, text: str, /) -> int:
        """Write a text; its length."""
        if not isinstance(text, str):  # so click finds out what kind of stream it is
            raise TypeError(f"expected a text, found {type(text).__name__}")
        super().write(escaped(text))
        return len(text)


def prepare_streams() -> None:
    """Make standard output write every byte or fail, and standard error never fail."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull)  # noqa: SIM115 (for reading, until the process ends)
    elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):  # of no test
        whole = io.BufferedWriter(_WholeFile(sys.stdout.fileno(), "w", closefd=False))
        stream_type = _Terminal if sys.stdout.isatty() else io.TextIOWrapper
        sys.stdout = _like(sys.stdout, whole, stream_type)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        lossy = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = _like(sys.stderr, lossy)


def _like(
    stream: io.TextIOWrapper, file: Any, stream_type: type[io.TextIOWrapper] = io.TextIOWrapper
) -> io.TextIOWrapper:
    """An unbuffered text stream over a file, in the encoding of another stream."""
    return stream_type(file, stream.encoding, stream.errors, write_through=True)


def escaped(text: str) -> str:
    r"""A text with its control characters as `\x1b`, all but line feeds and tabs."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) != "Cc" else f"\\x{ord(char):02x}"
        for char in text
    )


def error_line(error: Exception) -> str | None:
    """Error message for a file, memory or standard output; None for any other error."""
    if isinstance(error, (MemoryError, RuntimeError)):
        from elmo_cli.inference.device import is_out_of_memory

        return f"out of memory: {first_line(error)}" if is_out_of_memory(error) else None
    if isinstance(error, UnicodeEncodeError):
        return _encoding_error(error)
    if isinstance(error, io.UnsupportedOperation):
        return f"{_STANDARD_OUTPUT}: cannot write it: it is closed"
    if not isinstance(error, OSError):
        return None
    if error.filename == _STANDARD_OUTPUT:
        # Where the reader has gone, it is click's matter.
        return (
            None
            if error.errno == errno.EPIPE
            else f"{error.filename}: cannot write it: {error.strerror}"
        )
    if error.filename:  # no permission, or a name too long
        return f"{error.filename}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from tempfile import gettempdir

        return f"cannot write a file: {error.strerror}; temporary files are in {gettempdir()}"
    return None


def _encoding_error(error: UnicodeEncodeError) -> str | None:
    """Error message for a character that standard output does not take."""
    if error.encoding.startswith("utf"):
        return None
    character = ascii(error.object[error.start])
    return (
        f"{_STANDARD_OUTPUT}: cannot write {character} in {error.encoding}; "
        "PYTHONIOENCODING=utf-8 has it take all characters"
    )


def input_chunks(parse: Callable[[str], _Item], size: int) -> Iterator[list[_Item]]:
    """Lines of standard input, parsed, in lists: those together that are there.

    Args:
        parse: gives the item of a line.
        size: maximum length of a list.

    Raises:
        InputError: a line cannot be parsed; after the lines before it, with its number.
    """
    from elmo_cli.text.lines import STANDARD_INPUT, open_lines

    chunk: list[_Item] = []
    with open_lines(STANDARD_INPUT) as (lines, is_ready):
        try:
            for number, line in enumerate(lines, start=1):
                chunk.append(_parsed(parse, line, number))
                if len(chunk) == size or not is_ready():
                    yield chunk
                    chunk = []
        except InputError:
            if chunk:
                yield chunk
            raise
        if chunk:
            yield chunk


def _parsed(parse: Callable[[str], _Item], line: str, number: int) -> _Item:
    try:
        return parse(line)
    except InputError as error:
        raise InputError(f"standard input, line {number}: {error}") from None
