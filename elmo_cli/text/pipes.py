"""Pipes and terminals, blocking or not: read completely, and until a request to stop."""

import io
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo_cli.errors import StoppedError

POLL_SECONDS = 0.1
"""Seconds between two questions whether a waiting reader should stop."""
PATIENCE_SECONDS = 0.02
"""Seconds that `Pipe.has_line` waits before it is False, so that a fast writer fills batches."""


def never() -> bool:
    """Do not stop: the default of `should_stop`."""
    return False


class Pipe(io.BufferedReader):
    """A pipe, terminal or socket that is open for reading, blocking or not."""

    raw: "_WaitingFile"

    def __init__(
        self, descriptor: int, should_stop: Callable[[], bool] = never, *, closefd: bool = True
    ) -> None:
        """Read from a file descriptor.

        Args:
            descriptor: of the pipe.
            should_stop: asked while no bytes come; True raises a `StoppedError`.
            closefd: close the descriptor with this file.
        """
        super().__init__(_WaitingFile(descriptor, should_stop, closefd))
        self._patience = PATIENCE_SECONDS

    def has_line(self) -> bool:
        """Whether a line, or the end, can be read without a long wait.

        If not, the lines read so far should be answered before the next one is read.
        """
        if b"\n" in self._buffered():
            return True
        start = time.monotonic()
        is_there = self.raw.wait(self._patience)
        self._patience -= time.monotonic() - start
        if is_there and self._patience > 0:
            return True
        self._patience = PATIENCE_SECONDS
        return False

    def _buffered(self) -> bytes:
        """The bytes that can be read without waiting."""
        self.raw.may_wait = False
        try:
            return self.peek()
        finally:
            self.raw.may_wait = True


def open_pipe(path: str | Path, should_stop: Callable[[], bool] = never) -> Pipe:
    """Open a named pipe; on Linux, without waiting for its writer yet."""
    # Elsewhere a pipe that has no writer yet is at its end, and so reads as empty.
    flag = os.O_NONBLOCK if sys.platform == "linux" else 0
    return Pipe(os.open(path, os.O_RDONLY | flag), should_stop)


def is_pipe(descriptor: int) -> bool:
    """Whether an open file is to be read by a `Pipe`: no plain file, on a system with `poll`."""
    return hasattr(select, "poll") and not os.path.isfile(descriptor)


class _WaitingFile(io.FileIO):
    """A raw file that waits for bytes in short steps, and asks whether to stop."""

    may_wait = True
    """Whether a read waits for bytes; otherwise it gives None where there are none."""

    def __init__(self, descriptor: int, should_stop: Callable[[], bool], closefd: bool) -> None:
        super().__init__(descriptor, "rb", closefd=closefd)
        self._should_stop = should_stop
        self._n_read = 0
        self._is_at_end = False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether bytes, or the end, come within some seconds."""
        return bool(self._poll.poll(seconds * 1000))

    def readinto(self, buffer: Any, /) -> int | None:
        """Read what is there, and wait for it; see `io.RawIOBase.readinto`."""
        while not self._is_at_end:
            if self.wait(POLL_SECONDS if self.may_wait else 0):
                n_bytes = super().readinto(buffer)
                if n_bytes is not None:  # else another process has read it
                    self._n_read += n_bytes
                    self._is_at_end = n_bytes == 0  # a terminal tells of it once
                    return n_bytes
            if not self.may_wait:
                return None
            if self._should_stop():
                raise StoppedError("stopped while waiting for more input")
        return 0

    def tell(self) -> int:
        """How many bytes were read."""
        return self._n_read
