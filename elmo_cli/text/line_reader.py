"""Lines of an open source."""

import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final, NamedTuple

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import first_line
from elmo_cli.files.compression import decompressed, is_damage
from elmo_cli.files.file_types import binary_error
from elmo_cli.files.text_files import BYTE_ORDER_MARK, not_utf8_error
from elmo_cli.text.pipe import MAX_LINE_BYTES, LongLineError, Pipe

LINE_END_BYTES: Final = 1 << 16
"""Number of bytes at the beginning of a file that show its line ends."""
_LINE_WITH_END: Final = re.compile(r"(?<=\r)(?!\n)|(?<=\n)")
"""Position after CR, LF or CRLF. `str.splitlines` also splits elsewhere."""


class Line(NamedTuple):
    """Line of a text."""

    number: int
    """Number of the line in its file, from 1."""
    text: str
    """The line without white space around it, unless the reader keeps the ends."""
    error: str | None = None
    """Error of a line that is not UTF-8, with `skip_errors`.

    The text is its readable part, with U+FFFD for the rest.
    """


class LineReader:
    """Reader for the lines of an open file, as bytes with their ends."""

    def __init__(
        self, name: str, file: BinaryIO, *, first: int = 1, splits_at_cr: bool = False
    ) -> None:
        """Read the lines of a file, decompressed.

        Args:
            name: Name of the file in messages.
            file: The file.
            first: Number of the next line.
            splits_at_cr: End a line also at a lone CR.
        """
        self._name = name
        self._file = file
        self._stream = decompressed(file)
        self.is_compressed = self._stream is not file
        self.number = first - 1
        """Number of the line that was read last."""
        self._splits_at_cr = splits_at_cr
        self._is_at_start = True
        # Lines that end in LF are returned as the stream reads them: `_rest` has the
        # beginning of the first line, until that is returned, and `_lines` stays empty.
        # Lines that may end in CR are split here: `_rest` has bytes that are not split
        # yet, and `_lines` has the lines that were split from the bytes before them.
        self._rest = b""
        self._lines: deque[bytes] = deque()

    def seek(self, offset: int) -> None:
        """Move from the beginning to a line at an offset in decompressed bytes."""
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
        else:
            line = self._rest
            self._rest = b""
            if not line.endswith(b"\n"):
                line += self._readline(MAX_LINE_BYTES + 1)
                self._check_length(line)
        self.number += 1
        return line

    def decode(
        self, line: bytes, skip_errors: bool = False, keep_ends: bool = False
    ) -> Line:
        """Decode the line that `next_line` returned last, whose number is `number`.

        See `Source.lines` for the options.
        """
        error = None
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as reason:
            not_utf8 = not_utf8_error(self._name, reason, self.number)
            if not skip_errors:
                raise not_utf8 from None
            error = str(not_utf8)
            text = line.decode("utf-8", "replace")
        # Joined files have marks at later lines too.
        text = text.lstrip(BYTE_ORDER_MARK)
        if not keep_ends:
            text = text.strip()
        return Line(self.number, text, error)

    def lines(
        self,
        on_bytes: Callable[[int], object] = ignore,
        skip_errors: bool = False,
        keep_ends: bool = False,
    ) -> Iterator[Line]:
        """Yield the decoded lines; see `Source.lines`."""
        position = 0
        while True:
            line = self.next_line()
            end = self._file.tell() if self.is_compressed else position + len(line)
            if line:
                yield self.decode(line, skip_errors, keep_ends)
            # Compressed data has bytes after its last line.
            on_bytes(end - position)
            if not line:
                return
            position = end

    def is_ready(self) -> bool:
        """Return whether the next line can be read without a long wait."""
        if self._lines or not isinstance(self._file, Pipe):
            return True
        return self._file.has_line()

    def _begin(self) -> None:
        """Find the line ends of a file by its beginning. Refuse what is no text."""
        self._is_at_start = False
        self._rest = self._readline(LINE_END_BYTES)
        error = binary_error(self._name, self._rest)
        if error is not None:
            raise error
        if b"\n" not in self._rest and b"\r" in self._rest:
            self._splits_at_cr = True

    def _split_more(self) -> bool:
        """Split the next bytes into lines. Return False at the end of the file."""
        more = b""
        if not self._rest.endswith(b"\n"):
            # The limit grows with the line, so that a long line is copied only a few
            # times.
            more = self._readline(max(LINE_END_BYTES, len(self._rest)))
        content = self._rest + more
        self._rest = b""
        pieces = content.splitlines(keepends=True)
        if more and not more.endswith(b"\n"):
            # Its end may follow: also LF after CR.
            self._rest = pieces.pop()
            self._check_length(self._rest)
        self._lines.extend(pieces)
        return content != b""

    def _check_length(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise self._long_line_error()

    def _long_line_error(self) -> InputError:
        location = f"{self._name}, line {self.number + 1}"
        return InputError(f"{location}: more than {MAX_LINE_BYTES:,} bytes")

    def _readline(self, limit: int) -> bytes:
        try:
            return self._stream.readline(limit)
        except LongLineError:
            raise self._long_line_error() from None
        except Exception as error:
            if not is_damage(error):
                raise
            location = f"{self._name}, line {self.number + 1}"
            raise InputError(
                f"{location}: reading failed: {first_line(error)}",
                remedy="The file is damaged. Copy it again.",
            ) from None


def keep_line_ends(file: Iterable[str]) -> None:
    """Let a file that is open as text have the line ends that are in it, if possible.

    Only a real file that has not been read from yet can do so.
    """
    with suppress(AttributeError, io.UnsupportedOperation):
        file.reconfigure(newline="\n")  # type: ignore[attr-defined]


def lines_of_open_file(
    file: Iterable[str], *, splits_at_cr: bool, keep_ends: bool
) -> Iterator[Line]:
    """Yield the lines of a file that is open as text; see `Source.lines`."""
    for number, text in enumerate(_texts_of_open_file(file, splits_at_cr), start=1):
        yield Line(number, text if keep_ends else text.strip())


def _texts_of_open_file(file: Iterable[str], splits_at_cr: bool) -> Iterator[str]:
    keep_line_ends(file)
    for index, line in enumerate(file):
        if not isinstance(line, str):
            raise InputError(
                "the input: expected a file that is open as text, found a binary file"
            )
        line = line.lstrip(BYTE_ORDER_MARK)
        # A first line without LF shows that lines end in CR.
        ends_at_cr = splits_at_cr or (index == 0 and not line.endswith("\n"))
        if ends_at_cr and "\r" in line:
            yield from filter(None, _LINE_WITH_END.split(line))
        else:
            yield line
