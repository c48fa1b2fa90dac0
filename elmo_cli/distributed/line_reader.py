"""Lines of an open file, read, counted and hashed by one class for planning and for embedding."""

import hashlib
import math
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from elmo_cli.errors import InputError
from elmo_cli.text.lines import decode_line, decompressed, next_line

_CHUNK_BYTES: Final = 1 << 20


class LineReader:
    """Reader that knows its position in a file, and hashes the bytes that it has read.

    Args:
        path: Path of the file, for messages. A file whose name ends in `.gz` is decompressed.
        file: Open file, at the start of a line.
        number: Number of the next line, from 1.
    """

    def __init__(self, path: str, file: BinaryIO, number: int = 1) -> None:
        self._path, self._stream = path, decompressed(path, file)
        self.number = number
        """Number of the next line."""
        self.position = 0
        """Number of bytes that have been read."""
        self._digest = hashlib.sha256()
        self._next: bytes | None = None

    @property
    def is_at_end(self) -> bool:
        """True after the last line."""
        return not self._peek()

    def take_sha256(self) -> str:
        """Return the hash of the bytes since the last call."""
        found, self._digest = self._digest.hexdigest(), hashlib.sha256()
        return found

    def take_lines(self, n_lines: int, *, skip_errors: bool) -> Iterator[str]:
        """Yield the next lines without the whitespace at their ends; see `decode_line`."""
        for _ in range(n_lines):
            line = self._peek()
            if not line:
                return
            self._advance(line)
            yield decode_line(self._path, line, self.number - 1, skip_errors=skip_errors)

    def take_bytes(self, n_bytes: float, starts_record: Callable[[str], bool]) -> Iterator[str]:
        """Yield the next lines, of at least `n_bytes`, up to a line that starts a record."""
        end = self.position + n_bytes
        while line := self._peek():
            text = decode_line(self._path, line, self.number, skip_errors=True)
            if self.position >= end and starts_record(text):
                return
            self._advance(line)
            yield text

    def pass_bytes(self, n_bytes: float) -> None:
        """Read lines of at least `n_bytes` without decoding them, in a tenth of the time."""
        line = self._peek()
        decode_line(self._path, line, self.number, skip_errors=True)  # UTF-16 is an error.
        rest = n_bytes - len(line)
        self._advance(line)
        is_within_line = False
        while rest > 0 and (chunk := self._read(math.ceil(min(rest, _CHUNK_BYTES)))):
            rest -= len(chunk)
            is_within_line = not chunk.endswith(b"\n")
            self._add(chunk, chunk.count(b"\n"))
        if is_within_line:
            self._add(next_line(self._path, self._stream, self.number), 1)

    def _peek(self) -> bytes:
        if self._next is None:
            self._next = next_line(self._path, self._stream, self.number)
        return self._next

    def _advance(self, line: bytes) -> None:
        self._next = None
        self._add(line, 1)

    def _add(self, content: bytes, n_lines: int) -> None:
        self._digest.update(content)
        self.position += len(content)
        self.number += n_lines

    def _read(self, n_bytes: int) -> bytes:
        try:
            return self._stream.read(n_bytes)
        except (EOFError, OSError, zlib.error) as error:
            message = f"{self._path}, line {self.number}: cannot read on: {error}"
            raise InputError(message) from None
