"""Atomic writes: a file is written as `NAME.elmo-partial`, synced, then renamed.

No other program makes files of this name, so that one which a killed run has left can
be removed.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import ElmoError, OutputError

OPEN_SECONDS: Final = 2.0
"""Time to wait for programs on Windows to close a file."""
RETRY_SECONDS: Final = 0.05
_OPEN_ELSEWHERE: Final = (5, 32)
"""Errors of Windows: access denied, sharing violation."""


@contextmanager
def renamed(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Yield the path of a file to write, and rename it to `path` at the end.

    The file is `NAME.elmo-partial`, or `partial`. It is synced first, and removed if
    the block fails.
    """
    partial = partial or path.with_name(f"{path.name}.elmo-partial")
    try:
        partial.unlink(missing_ok=True)  # It may be a link.
        yield partial
        sync(partial)
        replace_file(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Yield the path of a file to write, as `renamed`, with errors as `OutputError`."""
    try:
        with renamed(Path(path)) as partial:
            yield partial
    except OSError as error:
        if isinstance(error, ElmoError):
            raise
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot be written: {reason}") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text to a file atomically."""
    with replaced(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def replace_file(source: Path, target: Path) -> None:
    """Rename a file over another, after waiting `OPEN_SECONDS` for it on Windows."""
    ends = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _OPEN_ELSEWHERE:
                raise
            if time.monotonic() >= ends:
                reason = (
                    "another program has it open. Close it, and run the command again"
                )
                raise PermissionError(errno.EBUSY, reason, str(target)) from None
            time.sleep(RETRY_SECONDS)


def sync(path: Path) -> None:
    """Sync a file, or a folder with the names in it, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder.
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
