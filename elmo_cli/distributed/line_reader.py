"""Lines of an open file, read, counted and hashed by one class for planning and for embedding."""

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from elmo_cli.text.lines import LineReader


class HashingReader:
    """Reader that knows its position in a file, and hashes the lines that it has read."""

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        *,
        start: int = 0,
        number: int = 1,
        splits_at_cr: bool = False,
    ) -> None:
        """Read lines from a position in the file.

        Args:
            path: Path of the file, for messages.
            file: Open file, at its beginning.
            start: Offset of the first line, in decompressed bytes.
            number: Number of the first line, from 1.
            splits_at_cr: End a line at a lone CR too, as in FASTA.
        """
        self._lines = LineReader(path, file, first=number, splits_at_cr=splits_at_cr)
        self._lines.seek(start)
        self.number = number
        """Number of the next line."""
        self.position = start
        """Offset of the next line, in decompressed bytes."""
        self.is_compressed = self._lines.is_compressed
        """True if the file is decompressed."""
        self._digest = hashlib.sha256()
        self._next: bytes | None = None

    @property
    def is_at_end(self) -> bool:
        """True after the last line."""
        return not self._peek()

    def take_sha256(self) -> str:
        """Return the hash of the lines since the last call."""
        sha256, self._digest = self._digest.hexdigest(), hashlib.sha256()
        return sha256

    def take_lines(self, n_lines: int, *, skip_errors: bool) -> Iterator[str]:
        """Yield the next lines without the whitespace at their ends; see `LineReader.decode`."""
        for _ in range(n_lines):
            line = self._peek()
            if not line:
                return
            text = self._lines.decode(line, skip_errors=skip_errors)
            self._advance(line)
            yield text

    def take_bytes(self, n_bytes: float, starts_record: Callable[[str], bool]) -> Iterator[str]:
        """Yield the next lines, of at least `n_bytes`, up to a line that starts a record."""
        end = self.position + n_bytes
        while line := self._peek():
            text = self._lines.decode(line, skip_errors=True)
            if self.position >= end and starts_record(text):
                return
            self._advance(line)
            yield text

    def pass_bytes(self, n_bytes: float) -> None:
        """Read lines of at least `n_bytes` without decoding them."""
        end = self.position + n_bytes
        while self.position < end and (line := self._peek()):
            self._advance(line)

    def _peek(self) -> bytes:
        if self._next is None:
            self._next = self._lines.next_line()
        return self._next

    def _advance(self, line: bytes) -> None:
        self._next = None
        self._digest.update(line)
        self.position += len(line)
        self.number += 1
