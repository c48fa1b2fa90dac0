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
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, RuntimeError):
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make changes of names in a folder survive a crash: a rename, for one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
