"""Standard output and standard error, where they are closed, full or of another encoding."""

import errno
import io
import os
import sys
from typing import Any


class _LossyFile(io.FileIO):
    """A file that loses what it cannot take: nobody's work should end for want of a message."""

    def write(self, data: Any, /) -> int:
        """Write bytes, or not; their number."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare_streams() -> None:
    """Have writing to a closed standard output fail, and to a standard error never."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull)  # noqa: SIM115 (for reading, until the process ends)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):  # of no test
        file = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = io.TextIOWrapper(file, encoding, errors, write_through=True)


def output_fault(error: Exception) -> str | None:
    """What is wrong with standard output, where an error says so, and what to do."""
    if isinstance(error, UnicodeEncodeError):
        if error.encoding.startswith("utf"):
            return None
        character = ascii(error.object[error.start])
        return (
            f"cannot write {character} in {error.encoding}; PYTHONIOENCODING=utf-8 has it take all "
            "characters"
        )
    if isinstance(error, io.UnsupportedOperation):
        return "cannot write it: it is closed"
    # Others have a name or no number, or are click's matter: the reader has gone.
    if isinstance(error, OSError) and not error.filename and error.errno not in (None, errno.EPIPE):
        return f"cannot write it: {error.strerror}"
    return None
