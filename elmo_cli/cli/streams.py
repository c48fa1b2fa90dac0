"""The standard streams: read some lines at a time; closed, full or of another encoding."""

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from elmo_cli.errors import InputError, first_line

_Item = TypeVar("_Item")


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


def fault_of(error: Exception) -> str | None:
    """What is wrong with a file or with standard output, where an error says so, in one line."""
    if isinstance(error, (MemoryError, RuntimeError)):
        from elmo_cli.inference.device import is_out_of_memory

        return f"out of memory: {first_line(error)}" if is_out_of_memory(error) else None
    if isinstance(error, OSError) and error.filename:  # of no permission, or a name too long
        return f"{error.filename}: {error.strerror}"
    fault = _output_fault(error)
    return fault and f"standard output: {fault}"


def _output_fault(error: Exception) -> str | None:
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
    # Others have no number, or are click's matter: the reader has gone.
    if isinstance(error, OSError) and error.errno not in (None, errno.EPIPE):
        return f"cannot write it: {error.strerror}"
    return None


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Some items of a stream at a time; where one is wrong, first those before it."""
    chunk = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except InputError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
