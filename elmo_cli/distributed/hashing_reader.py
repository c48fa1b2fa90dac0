"""Lines of an input, and the hash of those that were read."""

import hashlib
import math
from collections.abc import Iterator
from typing import BinaryIO

from elmo_cli.records.input_format import InputFormat
from elmo_cli.text.line_reader import LineReader


class HashingReader:
    """Reader of the lines of an open file, which hashes the lines it has yielded."""

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        input_format: InputFormat,
        *,
        start: int = 0,
        number: int = 1,
    ) -> None:
        """Read from the line `number`, at the byte `start` after decompression."""
        self.lines = LineReader(
            path, file, first=number, splits_at_cr=input_format.splits_at_cr
        )
        self.lines.seek(start)
        self.position = start  # offset of the next line
        self._format = input_format
        self._digest = hashlib.sha256()
        self._next: bytes | None = None

    def peek(self) -> bytes:
        """Return the next line, or empty bytes after the last one."""
        if self._next is None:
            self._next = self.lines.next_line()
        return self._next

    def take(self, n_bytes: float = math.inf) -> Iterator[bytes]:
        """Yield at least `n_bytes` of lines, up to a line that starts a record."""
        end = self.position + n_bytes
        line = self.peek()
        while line and (self.position < end or not self._starts_record(line)):
            self._digest.update(line)
            self.position += len(line)
            self._next = None
            yield line
            line = self.lines.next_line()
            self._next = line

    @property
    def number(self) -> int:
        """Number of the next line."""
        if self._next is None:
            return self.lines.number + 1
        return self.lines.number

    def take_sha256(self) -> str:
        """Return the hash of the lines since the last call."""
        sha256 = self._digest.hexdigest()
        self._digest = hashlib.sha256()
        return sha256

    def _starts_record(self, line: bytes) -> bool:
        return self._format.starts_record(line.decode("utf-8", "replace").strip())
