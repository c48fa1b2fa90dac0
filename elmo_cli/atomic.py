"""A file that gets its name when it is complete and on the disk, whatever ends the process."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_synced(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file as `NAME.partial`, sync it, and rename it.

    Raises:
        OSError: it cannot be written; a file of that name is as it was. A RuntimeError of
            `write` likewise.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            write(file)
        give_name(partial, path)
    except (OSError, RuntimeError):
        partial.unlink(missing_ok=True)
        raise


def give_name(partial: Path, path: Path) -> None:
    """Sync a file that is complete, and rename it.

    Raises:
        OSError: it cannot be done; a file of that name is as it was.
    """
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file survive a crash; or a folder, with the names in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
