"""Pipes, which are read as soon as a line is there."""

import io
import logging
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from elmo_cli.errors.exceptions import InputError, StoppedError

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.1
"""Interval at which a waiting reader calls `should_stop`."""
_PATIENCE_SECONDS: Final = 0.02
"""Time that `Pipe.has_line` waits, so that a fast writer fills batches."""
_PIPE_BYTES: Final = 1 << 16
MAX_LINE_BYTES: Final = 1 << 28
"""Maximum size of a line. A small compressed file can have one that fills the
memory."""


class LongLineError(InputError):
    """Error for a line of more than `MAX_LINE_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"a line has more than {MAX_LINE_BYTES:,} bytes")


class Pipe(io.FileIO):
    """Reader for the lines of a pipe, terminal or socket, as they arrive.

    The descriptor may be blocking or not.
    """

    def __init__(
        self, descriptor: int, should_stop: Callable[[], bool], *, closefd: bool = True
    ) -> None:
        """Read from a descriptor. Call `should_stop` repeatedly while waiting."""
        super().__init__(descriptor, closefd=closefd)
        self.should_stop = should_stop
        self._lines: deque[bytes] = deque()
        # Bytes that were read after the last line end. Only what is added to it is
        # copied, so a long line takes time in proportion to its length.
        self._rest = bytearray()
        # A terminal reports its end only once.
        self._is_at_end = False
        # Lines that are read again after `peeking`.
        self._peeked: list[bytes] | None = None
        self._patience = _PATIENCE_SECONDS
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next whole line with its end, or raise a `StoppedError` before."""
        line = self.peek_line()
        if line:
            self._lines.popleft()
            if self._peeked is not None:
                self._peeked.append(line)
        return line

    @contextmanager
    def peeking(self) -> Iterator[None]:
        """Let the lines that are read in the block be read again after it."""
        self._peeked = []
        try:
            yield
        finally:
            self._lines.extendleft(reversed(self._peeked))
            self._peeked = None

    def peek_line(self) -> bytes:
        """Return the next whole line without reading it; see `readline`."""
        while not self._wait(_POLL_SECONDS):
            if self.should_stop():
                raise StoppedError("stopped while waiting for more input")
        return self._lines[0] if self._lines else b""

    def has_line(self) -> bool:
        """Return whether a line, or the end, can be read without a long wait.

        All calls up to one that returns False wait `_PATIENCE_SECONDS` together. So a
        slow writer cannot hold a batch up by a short wait for each line.
        """
        if self._lines:
            return True
        start = time.monotonic()
        is_available = self._wait(self._patience)
        self._patience -= time.monotonic() - start
        if is_available and self._patience > 0:
            return True
        self._patience = _PATIENCE_SECONDS  # for the next batch
        return False

    def _wait(self, seconds: float) -> bool:
        """Return whether a line, or the end, is available. Wait for bytes if not."""
        if self._lines or self._is_at_end:
            return True
        if self._poll.poll(seconds * 1000):
            content = self.read(_PIPE_BYTES)
            # It is None if another process has read the bytes.
            if content is not None:
                self._take(content)
        return bool(self._lines) or self._is_at_end

    def _take(self, content: bytes) -> None:
        """Split bytes that were read into lines. Without any, the end is reached."""
        *ended, rest = content.split(b"\n")
        for line in ended:
            # Only the first one continues what was read before.
            self._lines.append(bytes(self._rest) + line + b"\n")
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_LINE_BYTES:
            raise LongLineError
        if not content:
            self._is_at_end = True
            if self._rest:
                self._lines.append(bytes(self._rest))


def open_standard_input(should_stop: Callable[[], bool]) -> BinaryIO:
    """Return standard input as a file of bytes, a `Pipe` if it is no regular file."""
    if sys.stdin is None:
        raise InputError(
            "standard input is closed", remedy="Name a file, or pipe a text into it."
        )
    file = sys.stdin.buffer
    if file.isatty():
        logger.info("Reading from the terminal; Ctrl-D ends the text.")
    # A file in memory has no descriptor.
    with suppress(io.UnsupportedOperation):
        if hasattr(select, "poll") and not os.path.isfile(file.fileno()):
            return Pipe(file.fileno(), should_stop, closefd=False)
    return file
